package otlp_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"

	"agentd"
	"agentd/command"
	"agentd/event"
	"agentd/model/provider/script"
	"agentd/store/storetest"
	"agentd/telemetry/otlp"
)

// A program that embeds the runtime sends its telemetry to a collector.
func Example() {
	ctx := context.Background()
	arrived := make(chan struct{})
	arrive := sync.OnceFunc(func() { close(arrived) })
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrive() }))
	defer collector.Close()

	exporter := otlp.New(storetest.NewMem(), otlp.Options{
		Collector: otlp.Collector{Endpoint: collector.URL},
		Signals:   []string{"traces"},
	})
	runtime, err := agentd.Open(ctx, agentd.Options{
		Store: exporter.Store(), Observer: exporter,
		Provider: script.New("script", nil), Model: "script",
	})
	if err != nil {
		log.Print(err)
		return
	}
	exporter.Start(ctx, runtime)

	if err := runTurn(ctx, runtime, "hello"); err != nil {
		log.Print(err)
	}
	<-arrived
	fmt.Println("spans arrived")
	if err := runtime.Close(ctx); err != nil {
		log.Print(err)
	}
	exporter.Close() // sends what is left
	// Output: spans arrived
}

// runTurn submits a turn and waits for its end.
func runTurn(ctx context.Context, r *agentd.Runtime, prompt string) error {
	res, err := r.Do(ctx, command.Local(), &command.SubmitTurn{SessionID: "sess_example", Create: true, Input: event.Raw(`"` + prompt + `"`)})
	if err != nil {
		return err
	}
	turn := res.(*command.SubmitTurnResult)
	facts, err := r.Subscribe(ctx, command.Local(), turn.SessionID, 0)
	if err != nil {
		return err
	}
	defer facts.Close()
	for {
		records, err := facts.Next(ctx)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if e, err := event.Decode(rec.Data); err == nil && e.TurnID == turn.TurnID && e.Type == event.TypeTurnCompleted {
				return nil
			}
		}
	}
}
