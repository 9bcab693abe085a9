package estimator

// Overheads of the chat format in tokens, for messages from the cookbook of
// OpenAI (How_to_count_tokens_with_tiktoken.ipynb).
const (
	replyTokens   = 3 // once: the start of the answer
	messageTokens = 3 // per message, plus role and content
	nameTokens    = 1 // per name, plus the name

	// gpt-3.5-turbo-0301 alone had other numbers.
	firstChatModel     = "gpt-3.5-turbo-0301"
	firstMessageTokens = 4
	firstNameTokens    = -1
)

// Overheads of calls and tools, measured against the API by
// hmarr/openai-chat-tokens and pamelafox/openai-messages-token-helper. The JSON
// of the functions plus 12 is 1 to 63 tokens more than was billed in the 38 cases
// their tests record, and never less.
const (
	callTokens           = 3  // per call in a message, plus name and arguments
	functionResultCredit = 2  // a message of role function costs that much less
	toolTokens           = 12 // once, plus the JSON of the functions
	choiceTokens         = 1  // tool_choice other than auto
	namedChoiceTokens    = 7  // tool_choice that names a tool, plus the name
	namedFunctionTokens  = 4  // function_call that names a function, plus the name
)

// toolBlock adds the tools, first of all texts: they are the same in every
// request of an application, so they are worth the exact count and the memo.
func (p *prompt) toolBlock(tools, functions, choice, call []byte) {
	sep := byte('[')
	for t := range elements(tools) {
		def := t
		for key, v := range members(t) {
			if string(key) == "function" {
				def = v
			}
		}
		p.buf = appendCompact(append(p.buf, sep), def)
		sep = ','
	}
	for f := range elements(functions) {
		p.buf = appendCompact(append(p.buf, sep), f)
		sep = ','
	}
	if sep == '[' {
		return
	}
	p.buf = append(p.buf, ']')
	p.end()
	p.priced = true
	p.fixed += toolTokens
	p.choice(choice, namedChoiceTokens)
	p.choice(call, namedFunctionTokens)
}

// choice adds what forcing a tool costs.
func (p *prompt) choice(v []byte, named int64) {
	switch kindOf(v) {
	case str:
		if s := string(v); s != `"auto"` {
			p.fixed += choiceTokens
		}
	case object:
		p.fixed += named
		// {"type":"function","function":{"name":x}}, or the name at the top.
		name := v
		for key, f := range members(v) {
			if string(key) == "function" {
				name = f
			}
		}
		found := false
		for key, f := range members(name) {
			if string(key) == "name" {
				p.value(f)
				found = true
			}
		}
		if !found {
			p.value(v)
		}
	}
}

// responseFormat adds the schema of structured output, which the provider puts
// into the prompt as it does tools.
func (p *prompt) responseFormat(v []byte) {
	for key, schema := range members(v) {
		if string(key) == "json_schema" {
			p.value(schema)
			p.fixed += toolTokens
			p.priced = true
		}
	}
}
