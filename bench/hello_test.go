package bench

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agentd/bench/rig"
)

// BenchmarkRunHello is "agentd run hello" at a warm server with the built-in provider:
// the client's processor time, and the time from its start to its answer. Beside it, in
// turn, stands the same program that only says its version, which is what starting it
// costs on this machine at this time; the ratios say how much a turn adds to that.
func BenchmarkRunHello(b *testing.B) {
	exe, home := rig.Build(b), b.TempDir()
	agentd := func(args ...string) *exec.Cmd {
		cmd := exec.Command(exe, args...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + filepath.Join(home, "run")}
		return cmd
	}
	if err := os.Mkdir(filepath.Join(home, "run"), 0o700); err != nil {
		b.Fatal(err)
	}
	// measure returns how long a program took until its first output, and its processor
	// time.
	measure := func(want string, args ...string) (answer, processor time.Duration) {
		b.Helper()
		cmd := agentd(args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		got := make([]byte, len(want))
		n, err := io.ReadFull(out, got) // it may come in parts
		answer = time.Since(began)
		if err != nil || string(got) != want {
			b.Fatalf("%v said %q, %v", args, got[:n], err)
		}
		if _, err := io.Copy(io.Discard, out); err != nil {
			b.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.Fatal(err)
		}
		return answer, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	run := []string{"run", "--model", "script/script", "hello"}
	if out, err := agentd(run...).CombinedOutput(); err != nil { // it starts the server
		b.Fatalf("%v\n%s", err, out)
	}
	b.Cleanup(func() {
		if out, err := agentd("daemon", "stop").CombinedOutput(); err != nil {
			b.Errorf("%v\n%s", err, out)
		}
	})
	var answers, processors, starts, startProcessors rig.Times
	for b.Loop() {
		for i := range 20 {
			time.Sleep(think)
			answer, processor := measure("You said: hello", run...)
			start, startProcessor := measure("agentd ", "version")
			if i == 0 {
				continue // the program's file is read again
			}
			answers, processors = append(answers, answer), append(processors, processor)
			starts, startProcessors = append(starts, start), append(startProcessors, startProcessor)
		}
	}
	for name, t := range map[string]rig.Times{"answer": answers, "cpu": processors, "start": starts, "start-cpu": startProcessors} {
		b.ReportMetric(rig.Millis(t.Percentile(50)), name+"-p50-ms")
	}
	b.ReportMetric(rig.Millis(answers.Percentile(99)), "answer-p99-ms")
	b.ReportMetric(float64(answers.Percentile(50))/float64(starts.Percentile(50)), "answer/start")
	b.ReportMetric(float64(processors.Percentile(50))/float64(startProcessors.Percentile(50)), "cpu/start-cpu")
	b.ReportMetric(0, "ns/op")
	b.Logf("load of the last minute: %s", rig.Load())
}
