package main

import (
	"encoding/json"
	"net/http"

	"github.com/paceline-go/paceline/job"
)

// claims are our own fields of a body, and service_tier, as they were sent; nil
// where there is none.
type claims struct {
	priority, tier, tenant, serviceTier []byte
}

// isOurs says that a field is for us and must not reach a provider, which would
// refuse it (BerriAI/litellm#7144).
func isOurs(f field) bool {
	switch string(f.key) {
	case "priority", "tier", "tenant":
		return true
	}
	return false
}

// read takes a field if it is a claim.
func (c *claims) read(key string, value []byte) {
	switch key {
	case "priority":
		c.priority = value
	case "tier":
		c.tier = value
	case "tenant":
		c.tenant = value
	case "service_tier":
		c.serviceTier = value
	}
}

// apply returns the tenant and class of a request. Without a claim the class is
// free, so that nobody overtakes those who paid by saying nothing
// (BerriAI/litellm#14832), and no claim goes beyond the caller's best class.
func (c *claims) apply(who caller, h http.Header) (tenant string, class job.Priority, err error) {
	class, err = c.class(h)
	if err != nil {
		return "", job.Unset, err
	}
	tenant = who.tenant
	if c.tenant != nil && !isNull(c.tenant) {
		var name string
		if json.Unmarshal(c.tenant, &name) != nil || checkTenant(name) != nil {
			return "", job.Unset, invalid("tenant", errTenant.Error())
		}
		if who.trusted && h.Get("X-Tenant") == "" {
			tenant = name
		}
	}
	return tenant, max(class, who.best), nil
}

// class takes the first claim there is: the body's priority and tier, the headers,
// and the provider's own service_tier.
func (c *claims) class(h http.Header) (job.Priority, error) {
	if c.priority != nil && !isNull(c.priority) {
		class, err := job.ParseClass(string(c.priority))
		if err != nil {
			return job.Unset, invalid("priority", wantPriority)
		}
		return class, nil
	}
	if c.tier != nil && !isNull(c.tier) {
		var name string
		if json.Unmarshal(c.tier, &name) == nil {
			if class, err := job.ParseTier(name); err == nil {
				return class, nil
			}
		}
		return job.Unset, invalid("tier", wantTier)
	}
	if text := h.Get("X-Priority"); text != "" {
		class, err := job.ParseClass(text)
		if err != nil {
			return job.Unset, invalid("X-Priority", wantPriority)
		}
		return class, nil
	}
	if text := h.Get("X-Tier"); text != "" {
		class, err := job.ParseTier(text)
		if err != nil {
			return job.Unset, invalid("X-Tier", wantTier)
		}
		return class, nil
	}
	switch string(c.serviceTier) {
	case `"flex"`:
		return job.Background, nil
	case `"priority"`, `"fast"`:
		return job.Paid, nil
	}
	return job.Free, nil
}

const (
	wantPriority = "expected an integer from 0, the most urgent, to 9"
	wantTier     = "expected paid, free or background"
)
