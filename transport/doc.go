// Package transport carries calls over HTTP. It holds what every server over a
// dispatcher needs: a refusal as an HTTP answer.
//
// # How it works
//
// [Refusal] turns an error of the dispatcher, the estimator or a plan into an
// [Error], which renders itself in the shape of OpenAI's API, as an RFC 9457
// problem, or as an event within a stream that has begun already.
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
// An Error is a value that rendering does not change.
//
// # Failure
//
// Writing to a client that is gone is not reported: there is nobody to tell.
package transport
