package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/jackc/pgx/v5"
)

// manifest is what a test reads of a Kubernetes object.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		ServiceName              string `yaml:"serviceName"`
		ClusterIP                string `yaml:"clusterIP"`
		PublishNotReadyAddresses bool   `yaml:"publishNotReadyAddresses"`
		Template                 struct {
			Spec struct {
				Containers []podContainer
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
		VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
	}
}

type podContainer struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Key string } `yaml:"secretKeyRef"`
			FieldRef     struct {
				FieldPath string `yaml:"fieldPath"`
			} `yaml:"fieldRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		ContainerPort int `yaml:"containerPort"`
	}
	StartupProbe   podProbe `yaml:"startupProbe"`
	ReadinessProbe podProbe `yaml:"readinessProbe"`
	LivenessProbe  podProbe `yaml:"livenessProbe"`
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type podProbe struct {
	HTTPGet struct {
		Path, Scheme string
		Port         int
	} `yaml:"httpGet"`
}

var kubernetesBlock = regexp.MustCompile("(?s)```yml\n(apiVersion.*?)```")

// readManifests returns the objects of the operations guide by kind and name.
func readManifests(t *testing.T) map[string]*manifest {
	t.Helper()
	block := kubernetesBlock.FindSubmatch(mustRead(t, "../../docs/operations.md"))
	if block == nil {
		t.Fatal("the operations guide has no manifest")
	}
	all := map[string]*manifest{}
	for d := yaml.NewDecoder(bytes.NewReader(block[1])); ; {
		m := &manifest{}
		if err := d.Decode(m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[m.Kind+" "+m.Metadata.Name] = m
	}
}

// TestKubernetes starts a node as a pod of the operations guide's StatefulSet would be: with its
// arguments, environment, configuration and files. Nodes find it by a name that outlives its
// address, also while it isn't ready, and its certificate is for that name; probes get answers.
// The next container of the pod, which has its volume and nothing else of the one before, is the
// same node, and is drained by the pod's name.
func TestKubernetes(t *testing.T) {
	all := readManifests(t)
	set := all["StatefulSet agentd"]
	if set == nil || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("the guide has no StatefulSet with one container: %v", all)
	}
	if s := all["Service "+set.Spec.ServiceName]; s == nil || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses {
		t.Errorf("pods that aren't ready have no names under service %q: %+v", set.Spec.ServiceName, s)
	}
	pod := &set.Spec.Template.Spec.Containers[0]
	f := newFleet(t, "1h", slow)
	certificates := t.TempDir()
	ca := newAuthority(t)
	cert, key := ca.sign(certificates, "*.agentd.default.svc", both...)
	for from, to := range map[string]string{ca.file: "ca.crt", cert: "tls.crt", key: "tls.key"} {
		writeFile(t, certificates, to, string(mustRead(t, from)))
	}
	folders := map[string]string{"nodes": certificates}
	for _, v := range set.Spec.VolumeClaimTemplates {
		folders[v.Metadata.Name] = freshVolume(t)
	}
	at := podPaths(t, set, all, folders)
	env := podEnv(t, pod, at, map[string]string{
		"database": f.url, "token": "shared-" + rand.Text(), "metadata.name": "agentd-0", "metadata.namespace": "default",
	})
	advertised, err := url.Parse(env["AGENTD_ADVERTISE"])
	if err != nil || advertised.Hostname() != "agentd-0."+set.Spec.ServiceName+".default.svc" || advertised.Port() != "8700" || pod.Ports[0].ContainerPort != 8700 {
		t.Errorf("a pod advertises %v, %v", advertised, err)
	}
	var args []string
	for _, arg := range pod.Args {
		arg = strings.TrimSuffix(at.Replace(arg+"/"), "/")
		args = append(args, strings.Replace(arg, "0.0.0.0:8700", "127.0.0.1:0", 1)) // the pod's own network
	}
	begin := func() *process {
		t.Helper()
		p := &process{t: t, data: f.url, lines: make(chan string, 10_000), cmd: inContainer(t, env, args...)}
		p.begin()
		return p
	}
	p := begin()
	kubelet := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // as the real one
	defer kubelet.CloseIdleConnections()
	for name, probe := range map[string]podProbe{"startup": pod.StartupProbe, "readiness": pod.ReadinessProbe, "liveness": pod.LivenessProbe} {
		get := probe.HTTPGet
		scheme, address, _ := strings.Cut(p.url, "://")
		if !strings.EqualFold(scheme, get.Scheme) || get.Port != 8700 {
			t.Errorf("the %s probe asks with %s at port %d", name, get.Scheme, get.Port)
		}
		res, err := kubelet.Get(strings.ToLower(get.Scheme) + "://" + address + get.Path)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the %s probe: %v, %v", name, res, err)
		}
		_ = res.Body.Close()
	}
	conn, err := pgx.Connect(t.Context(), f.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var row string
	if err := conn.QueryRow(t.Context(), `SELECT address FROM agentd.nodes`).Scan(&row); err != nil || row != env["AGENTD_ADVERTISE"] {
		t.Errorf("the others find it at %q, %v", row, err)
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Fatalf("the first container ended with %d", code)
	}
	begin()
	dir := args[slices.Index(args, "--state-dir")+1]
	out, err := inContainer(t, env, "nodes", "drain", "--state-dir", dir, "agentd-0").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "drained") {
		t.Errorf("drain by the pod's name: %v\n%s", err, out)
	}
}

// freshVolume makes a folder as a new ext4 volume is that fsGroup opened to a group.
func freshVolume(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "lost+found"), 0o700), os.Chmod(dir, 0o775|os.ModeSetgid)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inContainer returns a command in a container that has its pod's environment and volumes, and
// a home that was empty when it began.
func inContainer(t *testing.T, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := self(t, args...)
	cmd.Env = slices.DeleteFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "XDG_STATE_HOME=") })
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// podPaths returns what replaces the paths of a pod by those of its volumes here.
func podPaths(t *testing.T, set *manifest, all map[string]*manifest, folders map[string]string) *strings.Replacer {
	t.Helper()
	var configs []string
	for _, v := range set.Spec.Template.Spec.Volumes {
		if v.ConfigMap.Name == "" {
			continue
		}
		if all["ConfigMap "+v.ConfigMap.Name] == nil {
			t.Fatalf("there is no ConfigMap %s", v.ConfigMap.Name)
		}
		folders[v.Name] = t.TempDir()
		configs = append(configs, v.Name, v.ConfigMap.Name)
	}
	var pairs []string
	for _, m := range set.Spec.Template.Spec.Containers[0].VolumeMounts {
		if folders[m.Name] == "" {
			t.Fatalf("%s is mounted, and there is no such volume", m.Name)
		}
		pairs = append(pairs, m.MountPath+"/", folders[m.Name]+"/")
	}
	at := strings.NewReplacer(pairs...)
	for i := 0; i < len(configs); i += 2 {
		for name, text := range all["ConfigMap "+configs[i+1]].Data {
			if err := os.WriteFile(filepath.Join(folders[configs[i]], name), []byte(at.Replace(text)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return at
}

// podEnv returns a pod's environment, given what its references lead to.
func podEnv(t *testing.T, pod *podContainer, at *strings.Replacer, known map[string]string) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, e := range pod.Env {
		value := e.Value
		for name, v := range env {
			value = strings.ReplaceAll(value, "$("+name+")", v)
		}
		if from := e.ValueFrom.SecretKeyRef.Key + e.ValueFrom.FieldRef.FieldPath; from != "" {
			if value = known[from]; value == "" {
				t.Fatalf("%s comes from %q, which nothing is known of", e.Name, from)
			}
		}
		env[e.Name] = strings.TrimSuffix(at.Replace(value+"/"), "/")
	}
	return env
}
