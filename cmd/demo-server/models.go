package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/paceline-go/paceline/provider"
)

// offer is who serves a model.
type offer struct {
	upstream *upstream
	account  string // its name, by which the plan knows the model
}

// catalog knows which models are offered. One that is in no catalog is unknown: no
// call goes out unlimited because of a misspelt name.
type catalog struct {
	names    map[string]offer
	prefixes []prefix // the longest first
	listed   []string // the names, in the order they were added
	// chat is the model of /chat when it names none: the first one that is spoken to
	// by chat completions; "" for none.
	chat string
}

// prefix offers all models whose names begin alike.
type prefix struct {
	text string
	offer
}

// add offers a model, or with a * at its end all that begin so.
func (c *catalog) add(model string, o offer) {
	if text, ok := strings.CutSuffix(model, "*"); ok {
		c.prefixes = append(c.prefixes, prefix{text, o})
		slices.SortStableFunc(c.prefixes, func(a, b prefix) int { return cmp.Compare(len(b.text), len(a.text)) })
		return
	}
	if c.names == nil {
		c.names = make(map[string]offer)
	}
	c.names[model] = o
	c.listed = append(c.listed, model)
	if c.chat == "" && o.upstream.speaks(provider.Chat) {
		c.chat = model
	}
}

// find returns who serves a model: its name counts before a prefix, and a longer
// prefix before a shorter one.
func (c *catalog) find(model string) (offer, error) {
	if o, ok := c.names[model]; ok {
		return o, nil
	}
	for _, p := range c.prefixes {
		if strings.HasPrefix(model, p.text) {
			return p.offer, nil
		}
	}
	return offer{}, fmt.Errorf("%w: %.64q", provider.ErrUnknownModel, model)
}

type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func newModelObject(id string) modelObject {
	// Clients want a time of creation, and nobody knows one.
	return modelObject{ID: id, Object: "model", Created: 1_700_000_000, OwnedBy: "paceline"}
}

func (s *server) serveModels(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.keys.identify(r); err != nil {
		return err
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list", Data: []modelObject{}}
	for _, id := range s.models.listed {
		list.Data = append(list.Data, newModelObject(id))
	}
	return respond(w, list)
}

func (s *server) serveModel(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.keys.identify(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	if _, err := s.models.find(id); err != nil {
		return err
	}
	return respond(w, newModelObject(id))
}

func respond(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, body)
	return nil
}
