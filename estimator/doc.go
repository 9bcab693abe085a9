// Package estimator says what a call will cost before it is sent: tokens of input,
// counted by the model's own vocabulary, and tokens of output, from what the call
// declares. It makes a [job.Estimate] from a [job.Spec].
//
// # How it works
//
// [ParseChat] and [ParseEmbeddings] read a JSON body once into a [Request]: its
// texts, the sizes of its images, the length of its audio, and the few fields a
// server needs. Any shape a client may send has a price; the provider is the one
// to refuse it. [Estimator.Measure] then prices the Request for a model.
//
// Input is the tokens of all texts and the overhead of the chat format, which
// together equal what OpenAI bills for messages; tools, images, audio and files
// are priced by rules that err upwards. Output is the largest declared cap, or the
// model's default, times the number of choices. Neither ever overflows: numbers
// end at [MaxTokens].
//
// Texts are counted by package bpe, exactly: a chat of 8,000 tokens takes half a
// millisecond, and a few microseconds when it was seen before, because counts of texts
// are known by a keyed hash. Of one request 64 KiB of new text are counted; the rest is
// estimated from 128 slices at random places. So a body of 1 MB takes less than 10 ms,
// whatever is in it. An estimate names its method and, unless it is exact, bounds the
// input: a token covers at least one byte.
//
// Models of other makers have vocabularies of their own. Those are estimated from
// o200k_base by weights per script, and [Config] can correct that by what calls really
// used, and predict outputs: see package learn and [Estimator.Learn]. An embedder who has
// a tokenizer gives it as one of Config's Counters; package legacy has OpenAI's old ones.
//
// What is not in the body is not in the estimate: a stored conversation or prompt
// that the body only names, and what a built-in tool adds.
//
// # Concurrency
//
// An [Estimator] is safe for concurrent use, and the first uses of a vocabulary
// may come all at once. A [Request] is not changed by estimating it. The package
// starts no goroutine and never uses the network.
//
// # Failure
//
// Parsing fails, with a [*RequestError], for a body that is not JSON or has the
// wrong kind of value in a field that matters. Estimating a Request fails only if
// a vocabulary cannot be loaded from the binary.
package estimator
