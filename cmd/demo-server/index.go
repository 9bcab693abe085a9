package main

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// indexText says what to try. It is printed at the start, and answers GET /.
func indexText(addr string, cfg *config, a *app) string {
	if _, port, err := net.SplitHostPort(addr); err == nil && strings.HasPrefix(addr, "[::]") {
		addr = net.JoinHostPort("localhost", port)
	}
	models := modelNames(a.accounts)
	what := fmt.Sprintf("%s at %d tokens and %d requests per minute, from ", cfg.model, cfg.tpm, cfg.rpm)
	switch {
	case cfg.accounts != nil:
		what = strings.Join(models, ", ")
	case cfg.upstream != "":
		what += cfg.upstream
	default:
		what += "a built-in simulator"
	}
	who := `-H 'X-Tenant: acme'`
	if cfg.keys != "" {
		who = `-H "Authorization: Bearer $KEY"`
	}
	return fmt.Sprintf(`Paceline at http://%[1]s: %[2]s

A question:
  curl %[4]s http://%[1]s/chat -d '{"prompt":"words=20","tier":"paid"}'

A stream, in OpenAI's form:
  curl -N %[4]s http://%[1]s/v1/chat/completions -d '{"model":"%[3]s","stream":true,"messages":[{"role":"user","content":"words=50"}]}'

A burst of 40 free and 40 paid requests; most of the paid ones come back first:
  for i in $(seq 40); do for t in free paid; do curl -s -o /dev/null -w "$t %%{http_code} %%{time_total}s\n" %[4]s http://%[1]s/chat -d '{"prompt":"hello","max_tokens":20,"tier":"'$t'"}' & done; done; wait

Also: POST /v1/responses, POST /v1/messages, POST /v1/embeddings, POST /v1/jobs, GET /v1/jobs/ID, GET /v1/models, /metrics, /healthz, /readyz
`, addr, what, cmp.Or(a.server.models.chat, models[0]), who)
}

func (s *server) serveIndex(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, s.index)
	return nil
}
