package place

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"sync"
)

// machine is the running kernel, which no two machines share; empty if it can't be told.
var machine = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
})

// process tells this process from every other one.
var process = sync.OnceValue(rand.Text)

// FolderID tells a folder from every other one, on this machine and on others, for as long
// as the machine runs. It is empty if there is no such folder.
func FolderID(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	dev, ino := fileIdentity(info)
	host := machine()
	if host == "" || ino == 0 {
		host = process() // no one can tell whether it is the folder of another process
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d/%d", host, dev, ino))
	return hex.EncodeToString(sum[:12])
}
