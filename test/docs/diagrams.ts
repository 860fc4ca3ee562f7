/** The part of Mermaid's grammar that the documents use, line by line: enough to notice what would not be drawn. */

const NODE = /[A-Za-z]\w*(?:\["[^"]+"\]|\[\("[^"]+"\)\]|\{"[^"]+"\})?/.source
const EDGE = String.raw`(?:<?-->|---|==>|-\.->)(?:\|(?:"[^"|]+"|[^"|()[\]{}]+)\|)?`
const FLOW = new RegExp(`^${NODE}(?: ${EDGE} ${NODE})*$`)
const STATE = String.raw`(?:\[\*\]|[A-Z]\w*)`
const TRANSITION = new RegExp(`^${STATE} --> ${STATE}(?:: [^:;]+)?$`)
const PARTICIPANT = /^(?:participant|actor) \w+(?: as [\w ,:.()/-]+)?$/
const MESSAGE = /^\w+(?:-->>|->>|-\)|-x)\w+: [^;#]+$/
const NOTE = /^Note (?:over|left of|right of) \w+(?:,\w+)?: [^;#]+$/
const GROUP = /^(?:loop|opt|alt|else|par|and)\b[^;#]*$/

type Rule = (line: string, depth: number) => number | undefined

/** Each returns how much deeper the next line stands, or undefined if the line is none of the diagram. */
const RULES: Readonly<Record<string, Rule>> = {
  flowchart: (line) => {
    if (/^subgraph \w+(?:\["[^"]+"\])?$/.test(line)) return 1
    if (line === 'end') return -1
    return FLOW.test(line) ? 0 : undefined
  },
  'stateDiagram-v2': (line) => (TRANSITION.test(line) ? 0 : undefined),
  sequenceDiagram: (line, depth) => {
    if (line === 'end') return -1
    if (/^(?:else|and)\b/.test(line)) return depth > 0 && GROUP.test(line) ? 0 : undefined
    if (GROUP.test(line)) return 1
    return PARTICIPANT.test(line) || MESSAGE.test(line) || NOTE.test(line) || line === 'autonumber' ? 0 : undefined
  },
}

/** What of a diagram would not be drawn; empty if nothing. */
export function problemsOfDiagram(text: string): readonly string[] {
  const [head = '', ...lines] = text.trimEnd().split('\n')
  const [kind = '', direction] = head.split(' ')
  const rule = RULES[kind]
  if (rule === undefined || (kind === 'flowchart' && !/^(?:LR|TD|TB|RL|BT)$/.test(direction ?? '')))
    return [`'${head}' begins no diagram that is known here`]
  let depth = 0
  const problems: string[] = []
  for (const line of lines.map((each) => each.trim()).filter((each) => each !== '')) {
    const change = rule(line, depth)
    if (change === undefined) problems.push(`'${line}' is no line of a ${kind}`)
    depth += change ?? 0
    if (depth < 0) problems.push("'end' without a beginning")
  }
  if (depth > 0) problems.push("a group has no 'end'")
  return problems
}
