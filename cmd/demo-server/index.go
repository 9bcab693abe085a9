package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"
)

// indexText says what to try. It is printed at the start, and answers GET /.
func indexText(addr string, cfg *config) string {
	if _, port, err := net.SplitHostPort(addr); err == nil && strings.HasPrefix(addr, "[::]") {
		addr = net.JoinHostPort("localhost", port)
	}
	where := "a built-in simulator"
	if cfg.upstream != "" {
		where = cfg.upstream
	}
	who := `-H 'X-Tenant: acme'`
	if cfg.keys != "" {
		who = `-H "Authorization: Bearer $KEY"`
	}
	return fmt.Sprintf(`Paceline at http://%[1]s: %[2]s at %[3]d tokens and %[4]d requests per minute, from %[5]s

A question:
  curl %[6]s http://%[1]s/chat -d '{"prompt":"words=20","tier":"paid"}'

A stream, in OpenAI's form:
  curl -N %[6]s http://%[1]s/v1/chat/completions -d '{"model":"%[2]s","stream":true,"messages":[{"role":"user","content":"words=50"}]}'

A burst of 40 free and 40 paid requests; most of the paid ones come back first:
  for i in $(seq 40); do for t in free paid; do curl -s -o /dev/null -w "$t %%{http_code} %%{time_total}s\n" %[6]s http://%[1]s/chat -d '{"prompt":"hello","max_tokens":20,"tier":"'$t'"}' & done; done; wait

Also: POST /v1/embeddings, POST /v1/jobs, GET /v1/jobs/ID, GET /v1/models, /metrics, /healthz, /readyz
`, addr, cfg.model, cfg.tpm, cfg.rpm, where, who)
}

func (s *server) serveIndex(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, s.index)
	return nil
}
