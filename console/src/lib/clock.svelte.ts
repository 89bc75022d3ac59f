// One clock for all relative times: it ticks once per second while the page is seen.
class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (!document.hidden) this.now = Date.now();
    }, 1000);
  }
}

export const ticking = new Clock();
