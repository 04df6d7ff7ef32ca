/**
 * The event ids that were seen last, by which a replayed event is known.
 *
 * Guarantees that a stream of any length makes it hold no more than so many; an id that was pushed out counts
 * as new.
 */
const REMEMBERED = 1_024;

export class RecentIds extends Set<string> {
  override add(id: string): this {
    super.add(id);
    if (this.size > REMEMBERED) {
      for (const oldest of this) {
        this.delete(oldest);
        break;
      }
    }
    return this;
  }
}
