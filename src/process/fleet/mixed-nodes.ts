/** Where the nodes of a fleet differ, and which of them are otherwise than most. */

import type { NodeRow, Nodes } from '../../admin/api-shapes.ts'
import { type DetailedDigests, differences } from './digests.ts'

type Mixed = Nodes['mixed']

/** More sections are of no use to anybody. */
const SECTIONS_MAX = 100

/** `detailsOf`: the detailed digests of a configuration by its digest, if they are known. */
export function mixedNodes(
  nodes: readonly NodeRow[],
  detailsOf: (digest: string) => DetailedDigests | undefined,
): Mixed {
  // One that leaves is allowed to be of before.
  const staying = nodes.filter(({ state }) => state === 'ready')
  const bySection = new Map<string, string[]>()
  const add = (section: string, ids: readonly string[]) =>
    bySection.set(section, [...(bySection.get(section) ?? []), ...ids])
  const [, ...versions] = groups(staying, versionOf)
  if (versions.length > 0) add('version', idsOf(versions.flat()))
  const [most, ...others] = groups(staying, ({ digests }) => digests.configuration)
  for (const group of others) {
    const [reference, node] = [most?.[0], group[0]]
    if (reference === undefined || node === undefined) continue
    for (const section of sectionsOf(reference, node, detailsOf)) add(section, idsOf(group))
  }
  return [...bySection].slice(0, SECTIONS_MAX).map(([section, ids]) => ({ section, nodes: ids }))
}

function versionOf({ version, commit }: NodeRow): string {
  return `${version} ${commit}`
}

function idsOf(nodes: readonly NodeRow[]): readonly string[] {
  return nodes.map(({ id }) => id)
}

/** The largest first; of two alike, that of the node that has run the longest. */
function groups(nodes: readonly NodeRow[], of: (node: NodeRow) => string): readonly (readonly NodeRow[])[] {
  const oldestFirst = nodes.toSorted((a, b) => a.since.localeCompare(b.since) || a.id.localeCompare(b.id))
  return [...Map.groupBy(oldestFirst, of).values()].sort((a, b) => b.length - a.length)
}

/** Another version may make another digest of the same configuration: then only what can be named is different. */
function sectionsOf(
  reference: NodeRow,
  node: NodeRow,
  detailsOf: (digest: string) => DetailedDigests | undefined,
): readonly string[] {
  const [before, after] = [detailsOf(reference.digests.configuration), detailsOf(node.digests.configuration)]
  const found = before === undefined || after === undefined ? [] : differences(before, after)
  if (found.length > 0 || versionOf(reference) !== versionOf(node)) return found
  const parts = (['models', 'prices', 'organizations'] as const).filter(
    (part) => reference.digests[part] !== node.digests[part],
  )
  return parts.length > 0 ? parts : ['configuration']
}
