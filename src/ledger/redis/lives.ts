/** What this node knows of each organisation's life in Redis: when its figures began. Another life means that Redis was emptied meanwhile. */

/** No life of an organisation is known: whatever Redis has is taken as it is. */
export const UNKNOWN_LIFE = 0

/** Redis has lost what it had of an organisation. Nothing was done: what it lost must be given back first. */
export class EmptiedError extends Error {
  constructor(readonly organization: string) {
    super(`Redis has lost what it had of the organisation '${organization}'.`)
    this.name = 'EmptiedError'
  }
}

export class Lives {
  private readonly known = new Map<string, number>()

  of(organization: string): number {
    return this.known.get(organization) ?? UNKNOWN_LIFE
  }

  /** What Redis said by the way; counts where nothing was known. */
  learn(organization: string, life: number): void {
    if (!this.known.has(organization)) this.known.set(organization, life)
  }

  /** Everything that this node holds of an organisation is in this life. */
  adopt(organization: string, life: number): void {
    this.known.set(organization, life)
  }
}
