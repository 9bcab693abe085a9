// Package simprovider is a provider of language models that has no model: an HTTP
// server that speaks the APIs of OpenAI, Anthropic and Bedrock and enforces rate
// limits strictly. It judges clients that promise to keep to limits, so it is
// written from what providers document and do, it shares no code with any client,
// and it believes nothing a client says about its own use.
//
// # What it serves
//
//   - POST /v1/chat/completions, plain and streamed, with n, the output caps,
//     stream_options.include_usage and forced tool calls
//   - POST /v1/embeddings, with dimensions and encoding_format
//   - POST /v1/responses, plain and streamed
//   - POST /v1/messages, plain and streamed, and POST /v1/messages/count_tokens,
//     which is free
//   - POST /model/ID/converse
//   - GET /v1/models and GET /v1/models/ID
//   - GET /sim/stats: [Stats] in JSON; ?from= and ?to=, in RFC 3339, choose the
//     time that the utilisation is averaged over
//   - POST /sim/reset: [Server.Reset]
//   - POST /sim/disturb: [Server.Disturb], with an array of [Disturbance] in JSON
//
// Azure's and Groq's prefixes, /openai/v1 and /openai/deployments/ID, are taken off
// the path. Fields that are not known are accepted. A [Kind] gives all answers its
// headers and its errors; without one Anthropic's and Bedrock's APIs have their own,
// and the others OpenAI's.
//
// # What it charges
//
// A request is checked against a limit on requests, which it costs 1 of, and one
// on tokens. Both are charged, or neither. Admission charges
//
//	ceil(characters / 4) + n × cap
//
// tokens. The characters are the Unicode code points of the text of all messages
// (strings, and parts of type "text"), plus those of the JSON of tools as it was
// sent; roles, names, images and tool calls of earlier turns count nothing. The
// cap is the larger of max_tokens and max_completion_tokens, or DefaultOutput
// without either; the output keeps to the smaller. An embedding charges the same
// for its inputs together, plus 1 for each token number in them, and no cap. The
// first term is also what usage reports as prompt_tokens, unless InputPercent says
// that the estimate is wrong. [Rule] says when a charge is forgotten, [Settle] what
// becomes of it.
//
// A [Kind] charges as its provider does, as far as that is known:
//
//	           at admission                                 in the end
//	openai     estimate + n × cap, or the larger            the same
//	azure      floor(characters/4) + 1 of each message,     the same
//	           plus n × cap; ceil(characters/4) to embed
//	anthropic  estimate - cache reads, of input             input - cache reads,
//	                                                        and output as it comes
//	bedrock    estimate + cap                               input - cache reads
//	                                                        + output × burndown
//	groq       estimate - cache reads + n × cap             the same
//
// All that has tools or a system prompt beside its messages adds their characters.
// Anthropic refuses while no output token is left, though it reserves none. What is
// larger than a limit is refused for good, in the words of the provider. Windows,
// refills and days scale with the minute.
//
// A refused request charges nothing, but at OpenAI, where failed calls count, it
// takes one of the requests if there is one. A request whose client goes away stops
// producing: Final keeps its charge, Actual corrects it to the input and what had
// been produced, Produced has charged just that.
//
// # What it answers
//
// The last message of the user decides. "echo: TEXT" is answered with TEXT, at four
// code points a token; "words=N" with N words, a token each, at most 20,000; anything
// else with a number of words drawn from Output. A tool_choice that is "required" or
// names a function is answered with a call, whose arguments are always the same.
//
// Each answer, and each refusal for a limit, has the rate-limit headers of the
// moment of its decision, if its provider sends them. Under the azure rule
// remaining-requests is that of the sixth of a minute, as it is at Azure.
//
// The first byte comes after FirstByte, and then the tokens at OutputPerMinute, in
// steps of a 600th of a minute: a chunk each, if the answer is streamed.
//
// # Headers for load tests
//
//   - X-Sim-Output-Tokens: N makes an answer exactly N tokens long (1 to 1,000,000),
//     in time, charge and usage, but caps hold. Its text is at most 32 words.
//     A prompt of 4×N characters makes an exact charge for input.
//   - X-Sim-Cache-Read-Tokens and X-Sim-Cache-Write-Tokens: N make that much of the
//     input come from the provider's cache, or go there.
//   - X-Sim-Job: ID names the job behind a request. A job that is admitted a second
//     time counts as a duplicate.
//   - X-Sim-Fault, obeyed if Config.Faults is set: KEY=VALUE pairs, separated by
//     semicolons. status=503 answers with that status, retry_after=1 (or "date"),
//     retry_after_ms=150 and should_retry=false set its headers, and times=1 says how
//     often, counted by id=NONCE. keepalive=20 sends comments before the first chunk,
//     stream_error_after=3 fails a stream after so many chunks of content,
//     cut_after=3 breaks it off without a word, and delay_ms=1500 delays the first
//     byte. A status is answered before admission and charges nothing, not even at
//     OpenAI: a [Disturbance] does.
//
// # Concurrency
//
// A Server may be used by any number of goroutines. One lock guards the limits and
// the counts; the time of a decision is read once, while holding it, so that
// decisions are made in the order of their times. Nothing is written or waited for
// under it. The clock is time.Now, and the tests run it in testing/synctest.
//
// # Failure
//
// Memory is bounded: bodies by 32 MiB, remembered jobs and fault ids by number, the
// record behind the utilisation by 180 minutes; a sliding window holds what was
// admitted in it, so an unlimited RPM bounds it by traffic alone. A client that does
// not read an event of its stream for 30 s loses it. [Server.Serve] ends with its
// context: requests that have not been answered get 503, streams are broken off.
package simprovider
