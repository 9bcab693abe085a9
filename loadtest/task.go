package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

// task is one job on its way, see Concurrency in the package comment.
type task struct {
	worker *worker
	record record
	spec   job.Spec
	// feedback hears what the provider says; nil: nobody does.
	feedback *provider.Feedback
	size     size
	// asked and told are before and after the grant of this attempt: when its
	// reservation was asked for, and when the answer was there.
	asked, told time.Time
	// left is called when the job's place in a backlog is free: when paceline grants
	// it, or else when it ends, since what a rival sends may come back. It is
	// harmless when repeated.
	left func()
}

// begin is called before each attempt.
func (t *task) begin(asked, told time.Time) {
	t.asked, t.told = asked, told
	t.record.Granted = t.worker.since(told)
}

// call is one attempt: one request to the provider. It does not end with ctx,
// which ends with the load: what was sent is waited for.
func (t *task) call(context.Context) (any, job.Usage, error) {
	t.worker.box.add(t.record)
	var sent atomic.Int64 // written by the transport, perhaps later than the answer is read
	told := t.told
	ctx := httptrace.WithClientTrace(t.worker.calls, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent.Store(int64(time.Since(told))) },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.worker.setup.Provider+"/v1/chat/completions", bytes.NewReader(t.size.body(t.worker.setup.Options.model())))
	if err != nil {
		return nil, job.Usage{Known: job.NotSent}, err
	}
	req.Header = http.Header{
		"Content-Type":        {"application/json"},
		"X-Sim-Job":           {fmt.Sprintf("%d.%d", t.worker.setup.Proc, t.record.Seq)},
		"X-Sim-Output-Tokens": {strconv.FormatInt(t.size.output, 10)},
	}
	resp, err := t.worker.client.Do(req)
	if err != nil {
		return nil, job.Usage{}, err
	}
	defer resp.Body.Close()
	answered := time.Since(t.asked)
	if resp.StatusCode == http.StatusOK {
		t.hear(resp, provider.Refusal{})
	}
	t.record.Sent = time.Duration(sent.Load())
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return nil, job.Usage{}, err
	case resp.StatusCode == http.StatusTooManyRequests:
		t.record.Refused = append(t.record.Refused, t.worker.since(time.Now()))
		t.record.Granted = 0 // it waits again
		r := t.worker.setup.Options.profile().Refusal(resp.StatusCode, resp.Header, body)
		return nil, job.Used(0, 0), &job.RetryError{
			Err: fmt.Errorf("loadtest: refused: %.300s", body), After: r.After, Closed: t.hear(resp, r),
		}
	case resp.StatusCode != http.StatusOK:
		return nil, job.Usage{}, fmt.Errorf("loadtest: status %d: %.300s", resp.StatusCode, body)
	}
	t.worker.lengths.Observe(t.worker.key(), t.size.cap, t.size.output, t.size.output == t.size.cap)
	t.record.Counted = max(answered-t.worker.setup.Options.answerTime(t.size.output), t.record.Sent)
	return t.usage(body)
}

// hear passes the head of an answer on, when somebody listens.
func (t *task) hear(resp *http.Response, r provider.Refusal) (closed bool) {
	return t.feedback != nil && t.feedback.Hear(context.Background(), provider.Head{
		Job: &t.spec, Granted: t.told, Status: resp.StatusCode, Header: resp.Header, Refusal: r,
	})
}

// usage reads what the provider says was used. A prompt that is not charged as
// estimated would make the measurement worthless, and fails the job.
func (t *task) usage(body []byte) (any, job.Usage, error) {
	var answer struct {
		Usage struct {
			Input  int64 `json:"prompt_tokens"`
			Output int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, job.Usage{}, fmt.Errorf("loadtest: answer: %w", err)
	}
	u := job.Used(answer.Usage.Input, answer.Usage.Output)
	if u.Input != t.size.input || u.Output != t.size.output {
		return nil, u, fmt.Errorf("loadtest: the provider counted %d and %d tokens, not %d and %d", u.Input, u.Output, t.size.input, t.size.output)
	}
	return nil, u, nil
}

// filler is the text of every prompt: four characters are a token.
var filler = bytes.Repeat([]byte("tok "), maxSize)

// body is the request for a job of that size.
func (s size) body(model string) []byte {
	prompt := filler[:4*s.input]
	b := make([]byte, 0, len(prompt)+128)
	b = append(b, `{"model":"`+model+`","max_tokens":`...)
	b = strconv.AppendInt(b, s.cap, 10)
	b = append(b, `,"messages":[{"role":"user","content":"`...)
	b = append(b, prompt...)
	return append(b, `"}]}`...)
}
