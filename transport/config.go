package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/paceline-go/paceline/dispatcher"
	"github.com/paceline-go/paceline/job"
	"github.com/paceline-go/paceline/provider"
)

// Config is what a Transport is made of.
type Config struct {
	// Dispatcher decides when a call may leave. Its Estimator must take an
	// *estimator.Request; an *estimator.Estimator also learns from the answers.
	Dispatcher *dispatcher.Dispatcher
	// Profile reads the provider's answers; nil is the generic one.
	Profile *provider.Profile
	// Feedback hears what the provider says of its limits; nil: nobody does, and a
	// refusal holds back no more than the job that it hit.
	Feedback *provider.Feedback
	// LowerCap returns the cap on the output to send in the place of the one that a
	// call declares, and true, or false to leave it: see [estimator.Estimator.LowerCap].
	// nil leaves all. An answer that would be longer is cut.
	LowerCap func(job.Spec) (tokens int64, ok bool)
	// Base makes the calls; nil is http.DefaultTransport.
	Base http.RoundTripper
	// Tenant and Priority are whose calls these are when neither the call's
	// context nor its headers say.
	Tenant   string
	Priority job.Priority
	// MaxBody is the longest request body, in bytes; it is held in memory until the
	// call has ended. 0 means 32 MiB.
	MaxBody int64
}

// Caller says whose call it is, how urgent, and until when it must have started.
// The zero value of a field leaves it to the headers and the Config.
type Caller struct {
	Tenant   string
	Priority job.Priority
	Deadline time.Time
}

// WithCaller returns a context whose calls are that caller's.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

type callerKey struct{}

// The headers that say the same as a Caller, for programs that set no context. They
// are taken off before a call is sent. HeaderPriority is a digit from 0, the most
// urgent, to 9; HeaderTier is paid, free or background.
const (
	HeaderTenant   = "X-Tenant"
	HeaderPriority = "X-Priority"
	HeaderTier     = "X-Tier"
)

var (
	// ErrConfig is wrapped by every complaint about a Config.
	ErrConfig = errors.New("transport: bad config")
	// ErrCaller refuses a call whose headers about its caller make no sense.
	ErrCaller = errors.New("transport: bad caller")
	// ErrBodyTooLong refuses a call with a body above MaxBody.
	ErrBodyTooLong = errors.New("transport: the request body is too long")
)

const defaultMaxBody = 32 << 20

// New returns a Transport. It starts nothing: the dispatcher must run.
func New(cfg Config) (*Transport, error) {
	switch {
	case cfg.Dispatcher == nil:
		return nil, fmt.Errorf("%w: no Dispatcher", ErrConfig)
	case !cfg.Priority.Valid():
		return nil, fmt.Errorf("%w: Priority: %w", ErrConfig, job.ErrPriority)
	case cfg.MaxBody < 0:
		return nil, fmt.Errorf("%w: MaxBody must not be negative, not %d", ErrConfig, cfg.MaxBody)
	}
	if cfg.Profile == nil {
		generic, err := provider.ProfileNamed("generic")
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		cfg.Profile = generic
	}
	if cfg.Base == nil {
		cfg.Base = http.DefaultTransport
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = defaultMaxBody
	}
	return &Transport{cfg}, nil
}

// caller takes what the context says, then the headers, then the Config, and takes
// the headers off.
func (t *Transport) caller(req *http.Request) (Caller, error) {
	c, _ := req.Context().Value(callerKey{}).(Caller)
	h := req.Header
	if c.Tenant == "" {
		c.Tenant = h.Get(HeaderTenant)
	}
	if c.Priority == job.Unset {
		var err error
		if c.Priority, err = priorityOf(h.Get(HeaderPriority), h.Get(HeaderTier)); err != nil {
			return c, fmt.Errorf("%w: %s must be a digit, and %s paid, free or background", ErrCaller, HeaderPriority, HeaderTier)
		}
	}
	if c.Tenant == "" {
		c.Tenant = t.cfg.Tenant
	}
	if c.Priority == job.Unset {
		c.Priority = t.cfg.Priority
	}
	for _, name := range []string{HeaderTenant, HeaderPriority, HeaderTier} {
		h.Del(name)
	}
	return c, nil
}

// priorityOf reads the headers; the digit counts before the tier.
func priorityOf(digit, tier string) (job.Priority, error) {
	switch {
	case digit != "":
		return job.ParseClass(digit)
	case tier != "":
		return job.ParseTier(tier)
	}
	return job.Unset, nil
}
