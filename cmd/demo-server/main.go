// Demo-server schedules the calls of many tenants under the limits of one account or
// several. It speaks OpenAI's chat completions, responses and embeddings and
// Anthropic's messages. Without flags it needs nothing: the ledger is in memory and the
// provider a simulator. Flag -h lists the others.
//
// # How it works
//
// A request is read and checked, its body stripped of what is ours, and submitted
// to the dispatcher. When it is granted, the call is made as the client wrote it, at
// the account that serves its model, and the answer passed on: whole, or event by
// event. A streamed chat is asked for its usage, which callers see who asked too. The
// head of a stream is held back while it waits, so that it can be refused with a status
// that clients retry.
//
// What a call used is read from its answer, by its provider's profile. Callers are told
// what is left of their own budget in OpenAI's x-ratelimit headers, as it was a second
// ago at most.
//
// What ends a request without an answer is told in the shape of its API, OpenAI's or
// Anthropic's, and as an RFC 9457 problem outside of /v1, with a code that says whether
// we or the provider refused it.
//
// # Failure
//
// A client that goes away frees its place and its call at once; what was reserved
// stays counted, since the provider may have counted it. A ledger that does
// not answer makes requests wait; a provider that refuses is asked three times. On
// SIGTERM what runs is finished within the time of -drain; a second signal ends
// the process at once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// From the first signal on the second one ends the process at once.
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo-server:", err)
		os.Exit(1)
	}
}
