/** The error that a promise rejects with, for tests of the error itself. */

/** Throws if the promise resolves. */
export async function thrownBy(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}
