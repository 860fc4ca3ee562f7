/**
 * Resolves as the promise does, or to undefined after `ms`; rejects as it does before that. No timer is left when the
 * promise was faster: one of `Bun.sleep` would keep an ending process alive.
 */
export async function within<Value>(ms: number, promise: Promise<Value>): Promise<Value | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), ms)
  try {
    return await Promise.race([promise, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
