package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/paceline-go/paceline/estimator/learn"
)

// goodbye is how long everything may take to end after the drain is over.
const goodbye = 5 * time.Second

// run serves until ctx ends, and then drains. It returns nil when all was served
// that could be within the time of -drain.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	cfg, err := parseConfig(args, getenv, stderr)
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if cfg.debug {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))

	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	defer listener.Close()
	app, err := build(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer app.close()
	return app.serve(ctx, listener, cfg, log, stdout)
}

// serve runs all parts until ctx ends, and then drains.
func (a *app) serve(ctx context.Context, listener net.Listener, cfg *config, log *slog.Logger, stdout io.Writer) error {
	a.server.index = indexText(listener.Addr().String(), cfg, a)
	srv := &http.Server{
		Handler:           a.server.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}

	// The parts outlive ctx: it only says when to begin to stop.
	parts, stopParts := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	defer all.Wait()
	defer stopParts()
	if a.simulator != nil {
		all.Go(func() { _ = a.simulator.Serve(parts, a.simulatorListener) })
	}
	all.Go(func() { _ = a.server.dispatcher.Run(parts) })
	// Without this the first calls would wait for it.
	all.Go(func() {
		if err := a.estimators.load(a.accounts); err != nil {
			log.Error("a vocabulary can not be loaded", "error", err)
		}
	})
	if store, ok := a.ledger.(learn.Store); ok {
		all.Go(func() { a.factors.Share(parts, store, log) })
	}
	served := make(chan error, 1)
	all.Go(func() { served <- srv.Serve(listener) })
	fmt.Fprint(stdout, a.server.index)

	select {
	case err := <-served:
		return fmt.Errorf("serving ended: %w", err)
	case <-ctx.Done():
	}
	return drain(a.server, srv, cfg, log)
}

// drain ends the server: first load balancers are told, then no more work is
// taken, then what there is has its time, and then it is cut off.
func drain(s *server, srv *http.Server, cfg *config, log *slog.Logger) error {
	s.health.draining.Store(true)
	srv.SetKeepAlivesEnabled(false)
	log.Info("draining", "delay", cfg.shutdownDelay, "limit", cfg.drain)
	time.Sleep(cfg.shutdownDelay)

	limit, cancel := context.WithTimeout(context.Background(), cfg.drain)
	defer cancel()
	if err := s.dispatcher.Shutdown(limit); err != nil {
		log.Warn("calls were cut off that did not end within the time of -drain")
	}
	rest, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := srv.Shutdown(rest); err != nil {
		srv.Close()
		if !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		log.Warn("connections were closed whose clients did not read their answer")
	}
	s.jobs.running.Wait() // the dispatcher has let all of them go
	log.Info("stopped")
	return nil
}
