// Package sdktest_test runs unmodified SDKs over a Transport. It is a package of its own
// because they take minutes to build with the race detector.
package sdktest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	goopenai "github.com/sashabaranov/go-openai"

	"github.com/paceline-go/paceline/internal/simprovider"
	"github.com/paceline-go/paceline/internal/transporttest"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/transport"
)

func openAI(r *transporttest.Rig, opts ...option.RequestOption) openai.Client {
	all := append([]option.RequestOption{option.WithBaseURL(r.URL + "/v1"), option.WithAPIKey("k"), option.WithMiddleware(r.Transport.Middleware)}, opts...)
	return openai.NewClient(all...)
}

func ask(text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "gpt-4o-mini", MaxTokens: openai.Int(40),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)},
	}
}

func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{})
	client := openAI(r)
	answer, err := client.Chat.Completions.New(r.Context(), ask("echo: one two"))
	if err != nil || answer.Choices[0].Message.Content != "one two" {
		t.Fatalf("%+v, %v", answer, err)
	}
	total := answer.Usage.TotalTokens
	r.Used(1, total)

	params := ask("echo: one two three")
	params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
	stream := client.Chat.Completions.NewStreaming(r.Context(), params)
	var text strings.Builder
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 {
			text.WriteString(chunk.Choices[0].Delta.Content)
		}
		total += chunk.Usage.TotalTokens
	}
	if stream.Err() != nil || text.String() != "one two three" {
		t.Fatalf("%q, %v", text.String(), stream.Err())
	}
	r.Used(2, total)

	embedded, err := client.Embeddings.New(r.Context(), openai.EmbeddingNewParams{
		Model: "text-embedding-3-small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "bb"}},
	})
	if err != nil || len(embedded.Data) != 2 {
		t.Fatalf("%+v, %v", embedded, err)
	}
	total += embedded.Usage.TotalTokens
	r.Used(3, total)

	made, err := client.Responses.New(r.Context(), responses.ResponseNewParams{
		Model: "gpt-4o-mini", MaxOutputTokens: openai.Int(20),
		Input: responses.ResponseNewParamsInputUnion{OfString: openai.String("echo: four")},
	})
	if err != nil || made.OutputText() != "four" {
		t.Fatalf("%v, %v", made, err)
	}
	total += made.Usage.TotalTokens
	r.Used(4, total)

	if _, err := client.Models.List(r.Context()); err != nil { // costs nothing
		t.Fatal(err)
	}
	r.Used(4, total)
}

// A refusal is tried again by the dispatcher and not by the SDK, and what is left of
// it is the provider's own answer.
func TestRefusals(t *testing.T) {
	t.Parallel()
	sim := transporttest.OpenAI()
	sim.RPM = 1
	sim.Imitate = simprovider.KindGroq // a refused call counts nothing
	r := transporttest.New(t, "groq", sim, transport.Config{})
	client := openAI(r)
	params := ask("echo: x")
	params.Model = "openai/gpt-oss-120b"
	for range 2 { // the second is refused at first
		if _, err := client.Chat.Completions.New(r.Context(), params); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.Calls(); n != 3 {
		t.Errorf("%d calls, want a third for what was refused", n)
	}
	params.Model = "nobody"
	before := r.Calls()
	_, err := client.Chat.Completions.New(r.Context(), params)
	apiErr, ok := errors.AsType[*openai.Error](err)
	if !ok || apiErr.StatusCode != http.StatusNotFound || r.Calls() != before+1 {
		t.Errorf("%v after %d calls", err, r.Calls()-before)
	}
}

// Whose call it is, is said by the context, the headers or the Config, and the
// provider does not hear of it.
func TestCaller(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{Tenant: "config", Priority: job.Background})
	client := openAI(r, option.WithHeader(transport.HeaderTenant, "acme"), option.WithHeader(transport.HeaderTier, "paid"))
	ctx := transport.WithCaller(r.Context(), transport.Caller{Tenant: "context", Deadline: time.Now().Add(time.Minute)})
	if _, err := client.Chat.Completions.New(ctx, ask("echo: x")); err != nil {
		t.Fatal(err)
	}
	for name := range r.Seen() {
		if name == transport.HeaderTenant || name == transport.HeaderTier {
			t.Errorf("%s was sent", name)
		}
	}
	_, err := client.Chat.Completions.New(r.Context(), ask("echo: x"), option.WithHeader(transport.HeaderPriority, "urgent"), option.WithMaxRetries(0))
	if !errors.Is(err, transport.ErrCaller) {
		t.Errorf("%v, want ErrCaller", err)
	}
	late := transport.WithCaller(r.Context(), transport.Caller{Deadline: time.Now().Add(-time.Second)})
	_, err = client.Chat.Completions.New(late, ask("echo: x"))
	if apiErr, ok := errors.AsType[*openai.Error](err); !ok || apiErr.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%v, want a 503", err)
	}
}

func TestGoOpenAI(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{})
	cfg := goopenai.DefaultConfig("k")
	cfg.BaseURL, cfg.HTTPClient = r.URL+"/v1", &http.Client{Transport: r.Transport}
	client := goopenai.NewClientWithConfig(cfg)
	req := goopenai.ChatCompletionRequest{
		Model: "gpt-4o-mini", MaxCompletionTokens: 40,
		Messages: []goopenai.ChatCompletionMessage{{Role: "user", Content: "echo: one two"}},
		Tools: []goopenai.Tool{{Type: goopenai.ToolTypeFunction, Function: &goopenai.FunctionDefinition{Name: "f",
			Parameters: map[string]any{"type": "object", "properties": map[string]any{}}}}},
	}
	answer, err := client.CreateChatCompletion(r.Context(), req)
	if err != nil {
		t.Fatalf("%+v, %v", answer, err)
	}
	total := int64(answer.Usage.TotalTokens)
	r.Used(1, total)
	req.Tools = nil
	req.StreamOptions = &goopenai.StreamOptions{IncludeUsage: true}
	stream, err := client.CreateChatCompletionStream(r.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(chunk.Choices) > 0 {
			text.WriteString(chunk.Choices[0].Delta.Content)
		}
		if chunk.Usage != nil {
			total += int64(chunk.Usage.TotalTokens)
		}
	}
	_ = stream.Close()
	if text.String() != "one two" {
		t.Errorf("%q", text.String())
	}
	r.Used(2, total)
}

func TestAnthropic(t *testing.T) {
	t.Parallel()
	sim := simprovider.Config{RPM: simprovider.Unlimited, TPM: simprovider.Unlimited, OTPM: simprovider.Unlimited, Imitate: simprovider.KindAnthropic}
	r := transporttest.New(t, "anthropic", sim, transport.Config{})
	client := anthropic.NewClient(anthropicoption.WithBaseURL(r.URL), anthropicoption.WithAPIKey("k"), anthropicoption.WithHTTPClient(&http.Client{Transport: r.Transport}))
	params := anthropic.MessageNewParams{
		Model: "claude-sonnet-4-5", MaxTokens: 40,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("echo: one two"))},
	}
	answer, err := client.Messages.New(r.Context(), params)
	if err != nil || answer.Content[0].Text != "one two" {
		t.Fatalf("%+v, %v", answer, err)
	}
	total := answer.Usage.InputTokens + answer.Usage.OutputTokens
	r.Used(1, total)
	stream := client.Messages.NewStreaming(r.Context(), params)
	var whole anthropic.Message
	for stream.Next() {
		if err := whole.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil || whole.Content[0].Text != "one two" {
		t.Fatalf("%+v, %v", whole, stream.Err())
	}
	r.Used(2, total+whole.Usage.InputTokens+whole.Usage.OutputTokens)
}

// Fifty at once, some of which go away.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := transporttest.New(t, "openai", transporttest.OpenAI(), transport.Config{})
	client := openAI(r)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			stream := client.Chat.Completions.NewStreaming(ctx, ask("echo: a b c d e"))
			defer func() { _ = stream.Close() }()
			for n := 0; stream.Next(); n++ {
				if i%5 == 0 && n == 2 {
					return
				}
			}
			if err := stream.Err(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := r.Calls(); n != 50 {
		t.Errorf("%d calls", n)
	}
}
