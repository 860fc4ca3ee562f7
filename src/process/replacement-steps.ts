/** The start of a worker that is to replace another, by its steps: each is a promise that others wait for. */

export class ReplacementSteps {
  /** It has loaded its code and speaks our protocol. */
  readonly greeted = Promise.withResolvers<void>()
  /** It has everything but the listening socket. */
  readonly built = Promise.withResolvers<void>()
  /** It accepts requests. */
  readonly ready = Promise.withResolvers<void>()
  /** Resolves to the reason why it cannot replace the other. */
  readonly failed = Promise.withResolvers<string>()
}
