package provider

import "strings"

// mark is what a value in an answer means to a Reader.
type mark uint8

const (
	markNone    mark = iota
	markType         // names the event
	markUsage        // an object of counts
	markError        // an error: an object or a text
	markFinish       // why a choice ended; null while it has not
	markEnd          // the same, where it ends the stream
	markStop         // the same, where it says nothing of whether the answer goes on
	markDone         // true ends the stream
	markChoices      // an array; empty in the chunk that only has usage
	markCode         // of an error that is spread over the event itself
	markMessage      // likewise
	markDelta        // generated text, new with this event
	markWhole        // generated text in an answer that is one body
	markBytes        // base64 of an event within an event
)

// caps are the reasons of answers that a cap or the end of the context cut short.
var caps = map[string]bool{
	"length": true, "model_length": true, // as OpenAI, Mistral
	"max_tokens": true, "model_context_window_exceeded": true, // Anthropic, Bedrock
	"max_output_tokens": true, // Responses
	"MAX_TOKENS":        true, // Gemini, Cohere
}

// node is a key that is watched for, or on the way to one. Arrays are looked
// through: their elements stand where they stand.
type node struct {
	key  string
	mark mark
	by   [][]*node // the keys below, by their length
}

func (n *node) child(key []byte) *node {
	if len(key) < len(n.by) {
		for _, c := range n.by[len(key)] {
			if string(key) == c.key { // does not allocate
				return c
			}
		}
	}
	return nil
}

// watched is what is looked for in the answers of all providers at once. No place
// means two things, so that the shape need not be known beforehand.
var watched = func() *node {
	root := new(node)
	for _, w := range []struct {
		mark  mark
		paths string
	}{
		{markType, "type"},
		{markChoices, "choices"},
		{markUsage, "usage response.usage message.usage delta.usage x_groq.usage usageMetadata response.usageMetadata"},
		{markError, "error response.error choices.error x_groq.error"},
		{markCode, "code"},
		{markMessage, "message"},
		{markFinish, "choices.finish_reason delta.stop_reason delta.finish_reason"},
		{markEnd, "candidates.finishReason promptFeedback.blockReason response.candidates.finishReason"},
		{markStop, "stop_reason stopReason finish_reason incomplete_details.reason response.incomplete_details.reason"},
		{markDone, "done"},
		{markBytes, "bytes"},
		// Chat and completions, as streamed. Reasoning that comes under two names
		// in one event is counted under the first set only.
		{markDelta, `choices.delta.content choices.delta.content.text choices.delta.content.thinking.text
			choices.delta.reasoning_content choices.delta.reasoning choices.delta.refusal
			choices.delta.tool_calls.function.arguments choices.delta.function_call.arguments choices.text`},
		// Responses; Messages and Converse; Cohere; Generate.
		{markDelta, `delta delta.text delta.thinking delta.partial_json
			delta.reasoningContent.text delta.toolUse.input
			delta.message.content.text delta.message.content.thinking delta.message.tool_plan delta.message.tool_calls.function.arguments
			candidates.content.parts.text response.candidates.content.parts.text`},
		{markWhole, `choices.message.content choices.message.content.text choices.message.content.thinking.text
			choices.message.reasoning_content choices.message.reasoning choices.message.refusal
			choices.message.tool_calls.function.arguments choices.message.function_call.arguments
			output.content.text output.summary.text output.arguments
			content.text content.thinking
			output.message.content.text output.message.content.reasoningContent.reasoningText.text
			message.content.text message.tool_plan`},
	} {
		for _, path := range strings.Fields(w.paths) {
			n := root
			for key := range strings.SplitSeq(path, ".") {
				c := n.child([]byte(key))
				if c == nil {
					c = &node{key: key}
					for len(n.by) <= len(key) {
						n.by = append(n.by, nil)
					}
					n.by[len(key)] = append(n.by[len(key)], c)
				}
				n = c
			}
			n.mark = w.mark
		}
	}
	return root
}()
