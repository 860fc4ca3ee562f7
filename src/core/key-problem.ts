/** The error of a change of keys that is not possible. */

/**
 * `conflict`: the key exists, and its state does not allow the change. `unconfirmed`: the change was made, and Redis
 * may lose it.
 */
type KeyProblemKind = 'unknown' | 'exists' | 'conflict' | 'invalid' | 'unconfirmed'

/** `message` is one line that states what is wrong and what to do. */
export class KeyProblem extends Error {
  override readonly name = 'KeyProblem'

  constructor(
    readonly kind: KeyProblemKind,
    message: string,
  ) {
    super(message)
  }
}
