package dispatcher_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// riverqueue/river#1342: test libraries were linked into production binaries.
// Whoever imports the dispatcher gets two small modules besides the standard
// library, and no Redis, metrics, tokenizer or test library.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	allowed := map[string]bool{
		"github.com/google/uuid":                         true,
		"golang.org/x/sync/errgroup":                     true,
		"github.com/paceline-go/paceline/dispatcher":     true,
		"github.com/paceline-go/paceline/internal/sched": true,
		"github.com/paceline-go/paceline/job":            true,
		"github.com/paceline-go/paceline/ledger":         true,
	}
	for _, path := range strings.Fields(string(out)) {
		if !allowed[path] {
			t.Errorf("the dispatcher depends on %s", path)
		}
	}
	if !strings.Contains(string(out), "paceline/ledger") {
		t.Errorf("unexpected list: %s", out)
	}
}
