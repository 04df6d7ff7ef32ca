/**
 * The event store of one session.
 *
 * Guarantees that events are found again in the order they were sent, by stream or across streams. Never
 * forgets one: sessions of tests are short.
 */
export interface StoredEvent {
  readonly stream: string;
  /** Counts from 1 in its stream, priming events included. */
  readonly number: number;
  /** As it was sent; undefined for a priming event, which carries nothing. */
  readonly text: string | undefined;
}

export class EventLog {
  readonly #events: StoredEvent[] = [];

  add(event: StoredEvent): void {
    this.#events.push(event);
  }

  /** What an honest store gives: what came later on the same stream. */
  laterOnStream(stream: string, number: number): readonly string[] {
    const later = this.#events.filter((event) => event.stream === stream && event.number > number);
    return later.flatMap(({ text }) => (text === undefined ? [] : [text]));
  }

  /**
   * What a deaf store gives: what came later on any stream, priming events as empty objects, and the id of the last
   * of them. Nothing for an id that it does not know.
   */
  laterAnywhere(id: string): { readonly texts: readonly string[]; readonly lastId: string } {
    const at = this.#events.findIndex((event) => eventId(event) === id);
    const later = at < 0 ? [] : this.#events.slice(at + 1);
    const last = later[later.length - 1];
    return {
      texts: later.map((event) => event.text ?? eventText(eventId(event), {})),
      lastId: last === undefined ? id : eventId(last),
    };
  }
}

export function eventId(event: Pick<StoredEvent, 'stream' | 'number'>): string {
  return `${event.stream}_${event.number}`;
}

/** One JSON-RPC message as an event. */
export function eventText(id: string | undefined, message: object): string {
  return `event: message\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(message)}\n\n`;
}
