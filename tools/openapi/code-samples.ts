/** Examples of each operation for curl, Python and TypeScript. Tests run them. */

import { pythonPrograms } from './python-samples.ts'
import { BASE, type Program, type SampleRequest } from './sample-request.ts'
import { typescriptPrograms } from './typescript-samples.ts'

interface Sample {
  readonly lang: string
  readonly label: string
  readonly source: string
}

/** A whole answer in each language, and a stream if the operation has one. */
export function samplesOf(request: SampleRequest): readonly Sample[] {
  const python = pythonPrograms(request)
  const curl = { whole: curlLine(request, false), stream: python.stream && curlLine(request, true) }
  return [
    ...inBothForms('Shell', 'curl', curl),
    ...inBothForms('Python', 'Python', python),
    ...inBothForms('TypeScript', 'TypeScript', typescriptPrograms(request)),
  ]
}

function inBothForms(lang: string, label: string, { whole, stream }: Program): readonly Sample[] {
  const first = { lang, label, source: whole }
  return stream === undefined ? [first] : [first, { lang, label: `${label}, streamed`, source: stream }]
}

function curlLine(request: SampleRequest, isStreamed: boolean): string {
  const bearer = '-H "authorization: Bearer $WEIR_KEY"'
  if (request.kind === 'models') return `curl -s ${BASE}/v1/models \\\n  ${bearer}`
  if (request.kind === 'anthropic models') return `curl -s ${BASE}/anthropic/v1/models \\\n  -H "x-api-key: $WEIR_KEY"`
  if (request.kind === 'edits') {
    const fields = ['model=gpt-image', 'prompt=Add a sailing boat', 'image=@photo.png;type=image/png']
    const lines = [`curl -s ${BASE}/v1/images/edits`, `  ${bearer}`, ...fields.map((field) => `  -F "${field}"`)]
    return lines.join(' \\\n')
  }
  const key = request.path.includes('/messages') ? '-H "x-api-key: $WEIR_KEY"' : bearer
  const body = isStreamed ? { ...request.body, stream: true } : request.body
  const members = Object.entries(body).map(([name, value]) => `  "${name}": ${spacedJson(value)}`)
  return `curl -s${isStreamed ? 'N' : ''} ${BASE}${request.path} \\\n  ${key} \\\n  -d '{\n${members.join(',\n')}\n}'`
}

/** JSON on one line, with blanks as people write it. */
function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, each]) => `"${name}": ${spacedJson(each)}`)
  return `{${members.join(', ')}}`
}
