package simprovider

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestParallelRequestsAreCountedOnce sends 100 requests at once at limits that
// hold 50 of them.
func TestParallelRequestsAreCountedOnce(t *testing.T) {
	for _, limits := range [][2]int64{{50, Unlimited}, {Unlimited, 50 * 10}, {50, 50 * 10}} {
		for _, rule := range []Rule{Bucket, Fixed, Sliding} {
			t.Run(fmt.Sprint(rule, limits), func(t *testing.T) {
				s := mustNew(t, Config{RPM: limits[0], TPM: limits[1], Rule: rule, Settle: Final, FirstByte: -1, OutputPerMinute: -1})
				var ok, refused atomic.Int64
				var all sync.WaitGroup
				start := make(chan struct{})
				for i := range 100 {
					all.Go(func() {
						<-start
						switch code := chat(s, "", fmt.Sprintf(`,"max_tokens":10,"stream":%v`, i%2 == 0), "X-Sim-Job", fmt.Sprint(i)).Code; code {
						case 200:
							ok.Add(1)
						case 429:
							refused.Add(1)
						default:
							t.Errorf("status %d", code)
						}
					})
				}
				close(start)
				all.Wait()
				st := s.Stats()
				if ok.Load() != 50 || refused.Load() != 50 || st.Accepted != 50 || st.RefusedRequests+st.RefusedTokens != 50 || st.InFlight != 0 || st.DuplicateJobs != 0 {
					t.Errorf("%d accepted, %d refused, %+v", ok.Load(), refused.Load(), st.Counts)
				}
			})
		}
	}
}

// serve runs a server on loopback until the test ends, and returns its URL.
func serve(t *testing.T, s *Server) (url string, stop func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

func post(t *testing.T, client *http.Client, url, body string) *http.Response {
	t.Helper()
	res, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestServe goes over a real connection, which is kept across errors and streams.
func TestServe(t *testing.T) {
	cfg := instant()
	cfg.Faults = true
	s := mustNew(t, cfg)
	url, stop := serve(t, s)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, tc := range []struct {
		body   string
		status int
		has    string
	}{
		{`{"model":`, 400, `"invalid_request_error"`},
		{chatJSON("echo: hello", ""), 200, `"content":"hello"`},
		{chatJSON("echo: hello", `,"stream":true`), 200, "data: [DONE]\n\n"},
		{chatJSON(strings.Repeat("x", 1<<20)+" words=3", ""), 200, `"prompt_tokens":262146`},
	} {
		res := post(t, client, url, tc.body)
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != tc.status || !strings.Contains(string(body), tc.has) {
			t.Errorf("%.60s: %v, %d %s", tc.body, err, res.StatusCode, body)
		}
	}
	stop()
	if res, err := client.Post(url, "", nil); err == nil {
		res.Body.Close()
		t.Error("it still answers")
	}
}

// TestBrokenStreamIsNoticed: a clean end without [DONE] looks like a complete
// answer to most clients, so the connection must break.
func TestBrokenStreamIsNoticed(t *testing.T) {
	cfg := instant()
	cfg.Faults = true
	url, _ := serve(t, mustNew(t, cfg))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	req, _ := http.NewRequest(http.MethodPost, url+"/v1/chat/completions", strings.NewReader(chatJSON("words=200", `,"stream":true`)))
	req.Header.Set("X-Sim-Fault", "stream_error_after=3")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil || strings.Count(string(body), "\n\n") != 5 || !strings.HasSuffix(string(body), `"code":"upstream_error"}}`+"\n\n") {
		t.Errorf("error %v after %q", err, body)
	}
}

// TestClientThatLeavesFreesItsPlace, and so does a server that stops.
func TestClientThatLeavesFreesItsPlace(t *testing.T) {
	s := mustNew(t, Config{RPM: Unlimited, TPM: Unlimited, FirstByte: -1})
	url, stop := serve(t, s)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	gone := func() {
		t.Helper()
		for range 1000 {
			if s.Stats().InFlight == 0 {
				return
			}
			time.Sleep(5 * time.Millisecond) // a real connection: there is nothing to wait on
		}
		t.Fatal("the request is still in flight")
	}
	open := func() *bufio.Reader {
		t.Helper()
		res := post(t, client, url, chatJSON("words=20000", `,"stream":true`))
		t.Cleanup(func() { res.Body.Close() })
		r := bufio.NewReader(res.Body)
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
			t.Fatalf("%q, %v", line, err)
		}
		return r
	}

	res := post(t, client, url, chatJSON("words=20000", `,"stream":true`))
	if n := s.Stats().InFlight; n != 1 {
		t.Fatalf("%d in flight", n)
	}
	res.Body.Close()
	gone()

	r := open()
	stop()
	gone()
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a stream that was cut off by the server ended cleanly")
	}
}

func TestServeReturnsTheListenersError(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := mustNew(t, instant()).Serve(t.Context(), l); err == nil || !strings.HasPrefix(err.Error(), "simprovider: ") {
		t.Errorf("%v", err)
	}
}

func TestModels(t *testing.T) {
	cfg := instant()
	cfg.Models = []Model{{ID: "gpt-4o"}, {ID: `org/"odd"`}}
	s := mustNew(t, cfg)
	type model struct{ ID, Object string }
	rec, _ := do(s, "GET", "/v1/models", "")
	list := decode[struct {
		Object string
		Data   []model
	}](t, rec)
	if list.Object != "list" || fmt.Sprint(list.Data) != `[{gpt-4o model} {org/"odd" model}]` {
		t.Errorf("%s", rec.Body)
	}
	rec, _ = do(s, "GET", `/v1/models/org%2F%22odd%22`, "")
	if m := decode[model](t, rec); rec.Code != 200 || m.ID != `org/"odd"` {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
