// How many requests are under way, so that a page can say that what it shows is whole.
class Activity {
  count = $state(0);
  // Counted outside of the reactive graph and told to it in a moment: a request may begin where nothing reactive
  // may be changed, such as while a list is drawn.
  #now = 0;

  /** during counts a request until it has ended, whichever way. */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#change(1);
    try {
      return await work;
    } finally {
      this.#change(-1);
    }
  }

  #change(by: number): void {
    this.#now += by;
    queueMicrotask(() => (this.count = this.#now));
  }
}

export const activity = new Activity();
