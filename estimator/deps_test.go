package estimator_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Whoever imports the estimator gets the two vocabularies it counts in, and not the 11
// MB of pkoukk/tiktoken-go, which is for tests and for package legacy.
func TestDependencies(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly")
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, complaint.String())
	}
	const module = "github.com/paceline-go/paceline/"
	want := map[string]bool{"github.com/google/uuid": true, module + "job": true,
		module + "estimator": true, module + "estimator/bpe": true, module + "estimator/learn": true}
	for _, path := range strings.Fields(string(out)) {
		if !want[path] {
			t.Errorf("the estimator depends on %s", path)
		}
		delete(want, path)
	}
	if len(want) > 0 {
		t.Errorf("not in the list: %v", want)
	}
}
