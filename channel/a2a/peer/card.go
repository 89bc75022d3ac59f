package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	proto "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// errCard says that a card is not one to work with.
var errCard = errors.New("the agent card can't be used")

// maxRedirects is how often the address of a card may lead to another.
const maxRedirects = 3

// line is an open line to a peer.
type line struct {
	*a2aclient.Client
	door *door
	card *proto.AgentCard
	// raw is the card as facts keep it.
	raw json.RawMessage
	// http fetches what the peer names by its address.
	http *http.Client
}

func (l *line) close() { l.door.close() }

// streams reports whether the peer offers streams and may be asked for one.
func (l *line) streams() bool {
	return l.card.Capabilities.Streaming && (l.door.peer.Delivery == DeliveryAuto || l.door.peer.Delivery == DeliveryStreaming)
}

// open reads a peer's card and returns a line to it.
func (c *Client) open(ctx context.Context, p *Peer) (*line, error) {
	at, err := cardAddress(p.CardURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCard, err)
	}
	d := newDoor(p, hostPort(at), &c.opt)
	card, raw, err := c.readCard(ctx, d, at)
	if err != nil {
		d.close()
		return nil, err
	}
	// A call is never redirected: it has a content, and a credential.
	calls := &http.Client{Transport: d, CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect }}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(calls), a2aclient.WithRESTTransport(calls))
	if err != nil {
		d.close()
		return nil, fmt.Errorf("%w: %w", errCard, err)
	}
	return &line{Client: client, door: d, card: card, raw: raw, http: &http.Client{Transport: d, Timeout: c.opt.Timeout, CheckRedirect: followFew}}, nil
}

// followFew lets an address lead to another a few times. What is dialled is guarded
// each time.
func followFew(_ *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errRedirect
	}
	return nil
}

func (c *Client) readCard(ctx context.Context, d *door, at *url.URL) (*proto.AgentCard, json.RawMessage, error) {
	small := *d
	small.maxBody = c.opt.MaxCard
	var raw json.RawMessage
	r := agentcard.Resolver{
		Client: &http.Client{Transport: &small, Timeout: c.opt.Timeout, CheckRedirect: followFew},
		CardParser: func(b []byte) (*proto.AgentCard, error) {
			card := &proto.AgentCard{}
			if err := json.Unmarshal(b, card); err != nil {
				return nil, fmt.Errorf("%w: %w", errCard, err)
			}
			raw = b
			return card, nil
		},
	}
	card, err := r.Resolve(ctx, at.Scheme+"://"+at.Host, agentcard.WithPath(at.Path))
	if err != nil {
		if status, ok := errors.AsType[*agentcard.ErrStatusNotOK](err); ok {
			err = &statusError{status.StatusCode}
		}
		if errors.Is(err, errTooLarge) {
			err = fmt.Errorf("%w: it is larger than %d bytes", errCard, c.opt.MaxCard)
		}
		return nil, nil, fmt.Errorf("the agent card of %s: %w", at.Host, err)
	}
	return card, raw, d.believe(card, at)
}

// believe leaves the interfaces in a card that can be used: of this version, over a
// binding that is spoken here, at an address that is the card's own or allowed.
func (d *door) believe(card *proto.AgentCard, at *url.URL) error {
	var good []*proto.AgentInterface
	var why []string
	for _, i := range card.SupportedInterfaces {
		if i == nil {
			continue
		}
		if reason := d.misfit(i, at); reason != "" {
			why = append(why, fmt.Sprintf("%s %s at %s: %s", i.ProtocolBinding, i.ProtocolVersion, i.URL, reason))
			continue
		}
		good = append(good, i)
	}
	if len(good) == 0 {
		if len(why) == 0 {
			why = []string{"it names no interface"}
		}
		return fmt.Errorf("%w: %s", errCard, strings.Join(why, "; "))
	}
	card.SupportedInterfaces = good
	return nil
}

// misfit says why an interface can't be used; empty if it can.
func (d *door) misfit(i *proto.AgentInterface, at *url.URL) string {
	u, err := url.Parse(i.URL)
	switch {
	case i.ProtocolBinding != proto.TransportProtocolJSONRPC && i.ProtocolBinding != proto.TransportProtocolHTTPJSON:
		return "the binding is not spoken here"
	case i.ProtocolVersion != "1" && !strings.HasPrefix(string(i.ProtocolVersion), "1."):
		return "the version is not spoken here"
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil:
		return "the address can't be read"
	case !d.allowsHost(hostPort(u)):
		return "the address is not the card's own, and not allowed"
	case u.Scheme == "http" && at.Scheme == "https":
		return "the address is not encrypted, the card's is"
	}
	return ""
}
