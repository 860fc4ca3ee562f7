/** What a promise is rejected with, for tests that look at the error itself. */

/** Throws where the promise is kept. */
export async function thrownBy(promise: PromiseLike<unknown>): Promise<unknown> {
  try {
    await promise
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}
