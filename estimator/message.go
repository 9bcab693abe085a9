package estimator

// maxNesting is how deep content inside content is read part by part (a tool
// result holds parts of its own); what is deeper counts as unknown.
const maxNesting = 4

// message adds one message of a chat, or one item of a Responses input. Fields
// it does not know cost nothing ("weight": openai/openai-cookbook#1270).
func (p *prompt) message(v []byte) {
	p.messages++
	if kindOf(v) != object {
		p.value(v)
		return
	}
	var role, typ, content, name, calls, call, args []byte
	var extra [4][]byte
	for key, f := range members(v) {
		switch string(key) {
		case "role":
			role = f
		case "type":
			typ = f
		case "content":
			content = f
		case "name":
			name = f
		case "tool_calls":
			calls = f
		case "function_call":
			call = f
		case "arguments":
			args = f
		case "refusal":
			extra[0] = f
		case "reasoning_content":
			extra[1] = f
		case "output":
			extra[2] = f
		case "summary":
			extra[3] = f
		}
	}
	switch {
	case kindOf(role) == str:
		r := unquote(role)
		p.role(r)
		if string(r) == "function" {
			p.functionResults++
		}
	case content == nil && kindOf(typ) == str && !knownItem(string(typ)):
		p.content(v, 0)
		return
	}
	p.content(content, 0)
	for _, f := range extra {
		p.content(f, 0)
	}
	if given(name) {
		p.names++
		p.value(name)
	}
	p.value(args)
	for c := range elements(calls) {
		p.call(c)
	}
	if kindOf(call) == object {
		p.call(call)
	}
}

// plainMessage adds a message whose role its place in the body tells.
func (p *prompt) plainMessage(role string, content []byte) {
	p.messages++
	p.role([]byte(role))
	p.content(content, 0)
}

// knownItem reports whether message reads the fields of an item of the type
// (still quoted) that has no role and no content.
func knownItem(typ string) bool {
	switch typ {
	case `"message"`, `"function_call"`, `"function_call_output"`, `"reasoning"`:
		return true
	}
	return false
}

// call adds a call the assistant made: name and arguments, in the function of a
// tool call or (custom tools: input) at the top.
func (p *prompt) call(v []byte) {
	p.fixed += callTokens
	def := v
	for key, f := range members(v) {
		if k := string(key); k == "function" || k == "custom" {
			def = f
		}
	}
	var name, args []byte
	for key, f := range members(def) {
		switch string(key) {
		case "name":
			name = f
		case "arguments", "input":
			args = f
		}
	}
	if name == nil && args == nil {
		p.unknown(v)
		return
	}
	p.value(name)
	p.value(args)
}

// content adds what a content field may hold: null, a text, a part, or an array
// of parts and texts.
func (p *prompt) content(v []byte, depth int) {
	switch kindOf(v) {
	case object:
		p.part(v, depth)
	case array:
		for e := range elements(v) {
			switch {
			case kindOf(e) == object:
				p.part(e, depth)
			case kindOf(e) == array && depth < maxNesting:
				p.content(e, depth+1)
			case kindOf(e) == array:
				p.unknown(e)
			default:
				p.value(e)
			}
		}
	default:
		p.value(v)
	}
}

// part adds one part of a content. The type is not counted, and a part that
// lacks what its type promises counts as unknown.
func (p *prompt) part(v []byte, depth int) {
	var typ, text, refusal, imageURL, source, detail, inputAudio, content []byte
	for key, f := range members(v) {
		switch string(key) {
		case "type":
			typ = f
		case "text":
			text = f
		case "refusal":
			refusal = f
		case "image_url":
			imageURL = f
		case "source":
			source = f
		case "detail":
			detail = f
		case "input_audio":
			inputAudio = f
		case "content":
			content = f
		}
	}
	switch string(typ) {
	case `"text"`, `"input_text"`, `"output_text"`, `"summary_text"`, `"reasoning_text"`:
		if kindOf(text) != object && kindOf(text) != array {
			p.value(text)
			return
		}
	case `"refusal"`:
		if kindOf(refusal) == str {
			p.value(refusal)
			return
		}
	case `"image_url"`, `"input_image"`, `"image"`:
		p.addImage(imageURL, source, detail)
		return
	case `"input_audio"`:
		p.addAudio(inputAudio)
		return
	case `"file"`, `"input_file"`, `"document"`:
		p.files++
		return
	case `"tool_result"`:
		if depth < maxNesting {
			p.content(content, depth+1)
			return
		}
	}
	p.unknown(v)
}
