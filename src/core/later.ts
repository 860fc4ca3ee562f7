/**
 * A result that comes later, and calls its listeners in that moment. A promise calls them when the microtasks run,
 * and each step that passes it on makes another promise and two functions, which live until it comes: too much for what
 * every request waits for. It can be awaited like a promise.
 */

/** None of these may throw. */
export interface LaterListener<T> {
  resolved(value: T): void
  rejected(error: unknown): void
}

type Outcome<T> = { readonly value: T } | { readonly error: unknown }

export class Later<T> implements PromiseLike<T> {
  private outcome: Outcome<T> | undefined
  private listener: LaterListener<T> | undefined

  /** Its first result counts. */
  resolve(value: T): void {
    if (this.outcome !== undefined) return
    this.outcome = { value }
    this.listener?.resolved(value)
  }

  reject(error: unknown): void {
    if (this.outcome !== undefined) return
    this.outcome = { error }
    this.listener?.rejected(error)
  }

  /** Takes over the result of a promise. */
  follow(promise: Promise<T>): void {
    promise.then(
      (value) => this.resolve(value),
      (error: unknown) => this.reject(error),
    )
  }

  /** Calls a listener with the result: now, if it has come. */
  listen(listener: LaterListener<T>): void {
    const { outcome } = this
    if (outcome === undefined)
      this.listener = this.listener === undefined ? listener : new Both(this.listener, listener)
    else if ('value' in outcome) listener.resolved(outcome.value)
    else listener.rejected(outcome.error)
  }

  /** What `change` makes of its result; an error that `change` throws rejects it. */
  map<U>(change: (value: T) => U): Later<U> {
    const changed = new Changed(change)
    this.listen(changed)
    return changed
  }

  // biome-ignore lint/suspicious/noThenProperty: it can be awaited.
  then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((error: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return new Promise<T>((resolve, reject) => this.listen({ resolved: resolve, rejected: reject })).then(
      resolved,
      rejected,
    )
  }
}

/** A promise as a `Later`. */
export function laterOf<T>(result: Promise<T>): Later<T> {
  const later = new Later<T>()
  later.follow(result)
  return later
}

class Both<T> implements LaterListener<T> {
  constructor(
    private readonly first: LaterListener<T>,
    private readonly second: LaterListener<T>,
  ) {}

  resolved(value: T): void {
    this.first.resolved(value)
    this.second.resolved(value)
  }

  rejected(error: unknown): void {
    this.first.rejected(error)
    this.second.rejected(error)
  }
}

class Changed<T, U> extends Later<U> implements LaterListener<T> {
  constructor(private readonly change: (value: T) => U) {
    super()
  }

  resolved(value: T): void {
    let changed: U
    try {
      changed = this.change(value)
    } catch (error) {
      return this.reject(error)
    }
    this.resolve(changed)
  }

  rejected(error: unknown): void {
    this.reject(error)
  }
}
