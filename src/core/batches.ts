/** Long lists a part at a time, so that no call takes long and few run at the same time. */

/** The items of a list in their order, at most `most` at a time. */
export function* batchesOf<T>(list: readonly T[], most: number): Generator<readonly T[]> {
  for (let from = 0; from < list.length; from += most) yield list.slice(from, from + most)
}

/** What `call` resolves to for each item; at most `most` calls run at the same time. */
export async function mapInBatches<T, R>(
  list: readonly T[],
  most: number,
  call: (one: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = []
  for (const some of batchesOf(list, most)) results.push(...(await Promise.all(some.map((one) => call(one)))))
  return results
}
