// How a call's function learns that nobody waits for it any more.

/** The end of a call. Its signal is made once somebody asks for it: for a small call that costs as much as the call. */
export class End {
  #controller;
  #why;

  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#why) this.#controller.abort(this.#why);
    }
    return this.#controller.signal;
  }

  abort(why) {
    this.#why ??= why;
    this.#controller?.abort(why);
  }
}
