package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/paceline-go/paceline/provider"
)

// offers says whether the model has limits here. One that has none is unknown: no
// call goes out unlimited because of a misspelt name.
func (s *server) offers(model string) bool { return slices.Contains(s.models, model) }

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
	}{Object: "list"}
	for _, id := range s.models {
		list.Data = append(list.Data, newModelObject(id))
	}
	return respond(w, list)
}

func (s *server) serveModel(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.keys.identify(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	if !s.offers(id) {
		return fmt.Errorf("%w: %.64q", provider.ErrUnknownModel, id)
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
