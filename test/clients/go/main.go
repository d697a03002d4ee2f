// A program around the Go server SDK. ../README.md has the command line and the output.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/launchdarkly/go-sdk-common/v3/ldcontext"
	"github.com/launchdarkly/go-sdk-common/v3/ldlog"
	"github.com/launchdarkly/go-sdk-common/v3/ldvalue"
	ld "github.com/launchdarkly/go-server-sdk/v7"
	"github.com/launchdarkly/go-server-sdk/v7/interfaces"
	"github.com/launchdarkly/go-server-sdk/v7/ldcomponents"
)

const (
	readyMax     = 20 * time.Second
	pollInterval = 30 * time.Second
)

func say(line map[string]any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func configFor(mode, baseURL string) (ld.Config, error) {
	loggers := ldlog.NewDefaultLoggers()
	loggers.SetMinLevel(ldlog.Info)
	config := ld.Config{
		Logging:          ldcomponents.Logging().Loggers(loggers),
		Events:           ldcomponents.NoEvents(),
		DiagnosticOptOut: true,
		ServiceEndpoints: interfaces.ServiceEndpoints{Streaming: baseURL, Polling: baseURL, Events: baseURL},
	}
	dataSystem := ldcomponents.DataSystem().WithRelayProxyEndpoints(baseURL)
	switch mode {
	case "fdv1-stream":
		config.DataSource = ldcomponents.StreamingDataSource()
	case "fdv1-poll":
		config.DataSource = ldcomponents.PollingDataSource().PollInterval(pollInterval)
	case "fdv2":
		config.DataSystem = dataSystem.Default()
	case "fdv2-stream":
		config.DataSystem = dataSystem.Streaming()
	case "fdv2-poll":
		polling := ldcomponents.PollingDataSourceV2().BaseURI(baseURL).PollInterval(pollInterval)
		config.DataSystem = dataSystem.Custom().Synchronizers(polling)
	default:
		return config, fmt.Errorf("unknown mode %q", mode)
	}
	return config, nil
}

func follow(client *ld.LDClient, context ldcontext.Context, asked <-chan string) {
	changes := client.GetFlagTracker().AddFlagChangeListener()
	statuses := client.GetDataSourceStatusProvider().AddStatusListener()
	sayFlags := func(event string) {
		say(map[string]any{"event": event, "flags": client.AllFlagsState(context).ToValuesMap()})
	}
	sayFlags("initialized")
	for {
		select {
		case line, open := <-asked:
			if !open {
				return
			}
			if line == "flags" {
				sayFlags("flags")
			}
		case change := <-changes:
			value, err := client.JSONVariation(change.Key, context, ldvalue.Null())
			if err != nil {
				value = ldvalue.Null()
			}
			say(map[string]any{"event": "change", "key": change.Key, "value": value})
		case status := <-statuses:
			say(map[string]any{"event": "status", "state": string(status.State), "error": status.LastError.String()})
		}
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: driver MODE BASE_URL SDK_KEY")
		os.Exit(2)
	}
	config, err := configFor(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	asked := make(chan string)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			asked <- lines.Text()
		}
		close(asked)
	}()
	client, err := ld.MakeCustomClient(os.Args[3], config, readyMax)
	if err != nil {
		say(map[string]any{"event": "failed", "error": err.Error()})
		os.Exit(1)
	}
	context := ldcontext.NewBuilder("user-key").
		SetString("email", "a@example.com").SetString("plan", "pro").SetString("country", "NL").Build()
	follow(client, context, asked)
	_ = client.Close()
}
