package main

import (
	"context"
	"errors"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// config of the exporter.
type config struct {
	// Path of the file that is appended to.
	Path string `mapstructure:"path"`
}

// Validate implements the Collector's check of a configuration.
func (c *config) Validate() error {
	if c.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

// appender writes lines to a file.
type appender struct {
	path string
	mu   sync.Mutex
}

func (a *appender) write(line []byte, err error) error {
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// lines is the exporter "lines".
func lines() exporter.Factory {
	return exporter.NewFactory(component.MustNewType("lines"), func() component.Config { return &config{} },
		exporter.WithTraces(func(ctx context.Context, s exporter.Settings, c component.Config) (exporter.Traces, error) {
			a, m := &appender{path: c.(*config).Path}, &ptrace.JSONMarshaler{}
			return exporterhelper.NewTraces(ctx, s, c, func(_ context.Context, t ptrace.Traces) error { return a.write(m.MarshalTraces(t)) })
		}, component.StabilityLevelDevelopment),
		exporter.WithMetrics(func(ctx context.Context, s exporter.Settings, c component.Config) (exporter.Metrics, error) {
			a, m := &appender{path: c.(*config).Path}, &pmetric.JSONMarshaler{}
			return exporterhelper.NewMetrics(ctx, s, c, func(_ context.Context, t pmetric.Metrics) error { return a.write(m.MarshalMetrics(t)) })
		}, component.StabilityLevelDevelopment))
}
