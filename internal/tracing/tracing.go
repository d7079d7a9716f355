// Package tracing follows a turn from the command that opened it through outbox,
// task, run and agent with OpenTelemetry. It is off unless the usual environment
// variables name an exporter, and costs nothing then:
//
//	OTEL_TRACES_EXPORTER=otlp|console        which exporter
//	OTEL_EXPORTER_OTLP_ENDPOINT=…            where to; alone it means otlp
//	OTEL_SDK_DISABLED=true                   off all the same
//
// The context of an attempt is stored with it and travels in the headers of its
// task, so that a handoff, a retry or a lost worker stays in the trace that began
// with the command.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Header is the header of a task, and the field of an attempt, that carries the
// context: the traceparent of the W3C.
const Header = "traceparent"

var propagator = propagation.TraceContext{}

// Start switches tracing on when the environment says so. The function it returns
// sends what is left and must be called before the program ends.
func Start(ctx context.Context, program string) (stop func(context.Context) error, err error) {
	exporter, err := exporterOf(ctx)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	if exporter == nil {
		return func(context.Context) error { return nil }, nil
	}
	return Use(program, sdktrace.WithBatcher(exporter)), nil
}

// Use switches tracing on with a span processor of the caller's, for tests.
func Use(program string, processor sdktrace.TracerProviderOption) (stop func(context.Context) error) {
	provider := sdktrace.NewTracerProvider(processor,
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", program))))
	otel.SetTracerProvider(provider)
	return provider.Shutdown
}

func exporterOf(ctx context.Context) (sdktrace.SpanExporter, error) {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return nil, nil
	}
	kind := os.Getenv("OTEL_TRACES_EXPORTER")
	if kind == "" && (os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "") {
		kind = "otlp"
	}
	switch kind {
	case "", "none":
		return nil, nil
	case "otlp":
		return otlptracehttp.New(ctx)
	case "console":
		return stdouttrace.New(stdouttrace.WithWriter(os.Stderr))
	}
	return nil, errors.New("OTEL_TRACES_EXPORTER: use otlp, console or none")
}

// Parent returns the context of the span in ctx as it is stored and sent, empty
// when there is none.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	return carrier[Header]
}

// Span starts a span. parent is what Parent returned elsewhere, empty for the span
// in ctx; linked also links to it, for an attempt that another one handed on. The
// attributes are pairs of name and value.
func Span(ctx context.Context, name, parent string, linked bool, attributes ...string) (context.Context, *Ending) {
	options := []trace.SpanStartOption{}
	if parent != "" {
		ctx = propagator.Extract(ctx, propagation.MapCarrier{Header: parent})
		if linked {
			options = append(options, trace.WithLinks(trace.LinkFromContext(ctx)))
		}
	}
	ctx, span := otel.Tracer("rota").Start(ctx, name, options...)
	if span.IsRecording() {
		for i := 0; i+1 < len(attributes); i += 2 {
			span.SetAttributes(attribute.String("rota."+attributes[i], attributes[i+1]))
		}
	}
	return ctx, &Ending{span}
}

// Ending ends a span.
type Ending struct{ span trace.Span }

// End ends the span; a non-nil error marks it as failed. The error's text must be
// redacted already.
func (e *Ending) End(err error) {
	if err != nil {
		e.span.SetStatus(codes.Error, err.Error())
	}
	e.span.End()
}
