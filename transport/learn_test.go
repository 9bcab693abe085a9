package transport_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/paceline-go/paceline/internal/transporttest"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

// The answers teach how long they are, streamed or not, and a cap that is far longer is
// lowered then, if that is wanted.
func TestAnswersTeach(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"", `"stream":true,"stream_options":{"include_usage":true},`} {
		var sent string
		base := roundTrip(func(req *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(req.Body)
			sent = string(body)
			return http.DefaultTransport.RoundTrip(withBody(req, body))
		})
		var r *transporttest.Rig
		r = transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{
			Base:     base,
			LowerCap: func(s job.Spec) (int64, bool) { return r.Estimator.LowerCap(s, 2) },
		})
		body := `{"model":"gpt-4o-mini","max_tokens":4096,` + stream + `"messages":[{"role":"user","content":"echo: one two"}]}`
		for i := range 25 {
			resp, err := post(r.Context(), r, r.Transport, body)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("status %d", resp.StatusCode)
			}
			if i == 0 && sent != body {
				t.Errorf("sent %s before anything was learnt", sent)
			}
			r.Idle()
		}
		if want := strings.Replace(body, "4096", "256", 1); sent != want {
			t.Errorf("sent %s, want %s", sent, want)
		}
	}
}
