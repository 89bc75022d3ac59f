package peer_test

import (
	"time"

	"agentd/channel/a2a/peer"
)

type peerOptions = peer.Options

const hour = time.Hour
