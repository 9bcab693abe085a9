// Package transport carries calls over HTTP. It has the way into a dispatcher for
// clients that exist, and a refusal as an HTTP answer for servers.
//
//	t, err := transport.New(transport.Config{Dispatcher: d, Profile: profile})
//	client := openai.NewClient(option.WithMiddleware(t.Middleware))
//	other := &http.Client{Transport: t}
//
// # How it works
//
// A [Transport] takes each call that costs tokens, knows it by its URL, reads its
// body and submits it. When its turn and its budget have come it is sent as it was.
// The head of the answer goes to the caller at once; the body is read along with the
// caller, and when that ends, or is closed, the call is settled with the usage that
// the answer told. An answer that was cut, or told none, leaves what was reserved.
// Whose call it is, is said by [WithCaller], by headers that are taken off, or by the
// Config.
//
// A refusal that may be tried again goes back to its place in the queue. What is left
// in the end is the provider's own answer, with x-should-retry: false, so that SDKs
// do not try once more what has been tried as often as it may; a call that the
// dispatcher refuses gets an answer in OpenAI's form.
//
// [Refusal] turns an error of the dispatcher, the estimator or a plan into an
// [Error], which renders itself in the shape of OpenAI's API or Anthropic's, as an RFC
// 9457 problem, or as an event within a stream that has begun already.
//
// The statuses, headers and words are what public clients were measured to need.
// A wait is told as whole seconds from 1 to 59 in Retry-After, and exactly in
// retry-after-ms: openai-node retries after half a second when it reads more than
// 60, and nobody agrees on dates and fractions. Every client is told another wait,
// never less than the true one, because the SDKs that obey sleep exactly that
// long, and all would come back at once. A longer wait is told in words, with
// x-should-retry: false.
//
// No message has user input in it: LangChain never retries an error that mentions
// billing or a quota, and langchaingo sorts errors by the digits in their text.
//
// # Concurrency
//
// A Transport is safe for concurrent use. An Error is a value that rendering does
// not change.
//
// # Failure
//
// A body that is never closed keeps its call running until its context ends, as with
// every http.Client. Writing to a client that is gone is not reported: there is nobody
// to tell.
package transport
