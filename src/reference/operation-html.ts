/** An operation as HTML: what it takes and answers on one side, examples on the other. */

import { isObject, type JsonObject } from '../core/json.ts'
import { codeBlock, isLanguage } from './code-html.ts'
import { objectOf, objectsOf, textOf } from './document-values.ts'
import { blocks, html, inline, type Markup, separated } from './markup.ts'
import { nameOfRef, schemaLink } from './schema-html.ts'

export interface DocumentedOperation {
  readonly method: string
  readonly path: string
  readonly operation: JsonObject
}

/** What an operation needs of the document. */
interface Surroundings {
  /** Follows a reference within the document. */
  readonly resolve: (value: JsonObject) => JsonObject
  /** The section of a schema if no section of the page has it yet; undefined if one has. */
  readonly takeSchema: (name: string) => Markup | undefined
}

/** The id of an operation within the page. */
export function operationId({ operation }: DocumentedOperation): string {
  return textOf(operation['operationId'])
}

export function operationSection(each: DocumentedOperation, around: Surroundings): Markup {
  const { method, path, operation } = each
  return html`<section class="operation" id="${operationId(each)}">
<h3>${textOf(operation['summary'])}
<a class="anchor" href="#${operationId(each)}" aria-label="Link to this operation">#</a></h3>
<p class="route"><span class="method ${method}">${method.toUpperCase()}</span> <code>${path}</code></p>
<div class="columns"><div class="text">
${blocks(textOf(operation['description']))}
${answerPart(operation, around)}
${errorsPart(operation, around)}
${parametersPart(operation, around)}
${requestPart(operation, around)}
</div><div class="code">
${samplesPart(operation)}
${answerExamples(operation)}
</div></div>
</section>
`
}

/** The schema of each content type. */
function contentLines(content: JsonObject): readonly Markup[] {
  return Object.entries(content).map(([type, media]) => {
    const schema = objectOf(objectOf(media)['schema'])
    const event = schema['x-weir-event-data']
    const name = nameOfRef(event === undefined ? schema : objectOf(event))
    const what = event === undefined ? '' : 'events: '
    return html`<li><code>${type}</code> ${what}${name !== undefined && schemaLink(name)}</li>`
  })
}

/** The headers that a request may have. */
function parametersPart({ parameters }: JsonObject, { resolve }: Surroundings): Markup {
  const list = objectsOf(parameters).map(resolve)
  if (list.length === 0) return html``
  const rows = list.map(
    ({ name, description }) => html`<div class="field"><dt><code>${textOf(name)}</code></dt>
<dd><p>${inline(textOf(description))}</p></dd></div>`,
  )
  return html`<details><summary>${rows.length} optional headers of requests</summary>
<dl class="fields">${rows}</dl></details>`
}

/** The body, with its fields if this is the first operation that takes it. */
function requestPart(operation: JsonObject, { takeSchema }: Surroundings): Markup {
  const { requestBody } = operation
  if (!isObject(requestBody)) return html``
  const content = objectOf(requestBody['content'])
  const names = Object.values(content).flatMap((media) => nameOfRef(objectOf(objectOf(media)['schema'])) ?? [])
  return html`<h4>Body</h4><ul class="contents">${contentLines(content)}</ul>
${names.map((name) => takeSchema(name))}`
}

function answerPart(operation: JsonObject, { resolve }: Surroundings): Markup {
  const answer = objectOf(objectOf(operation['responses'])['200'])
  const headers = Object.entries(objectOf(answer['headers']))
  return html`<h4>Answer</h4><p>${textOf(answer['description'])}</p>
<ul class="contents">${contentLines(objectOf(answer['content']))}</ul>
<details><summary>${headers.length} headers of the answer</summary><dl class="fields">${headers.map(([name, header]) =>
    headerRow(name, resolve(objectOf(header))),
  )}</dl></details>`
}

function headerRow(name: string, header: JsonObject): Markup {
  return html`<div class="field"><dt><code>${name}</code>${
    header['required'] !== true && html` <span class="optional">may be absent</span>`
  }</dt><dd><p>${inline(textOf(header['description']))}</p></dd></div>`
}

/** The errors of an answer as the document lists them. */
export function errorRows(response: JsonObject): readonly JsonObject[] {
  return objectsOf(response['x-weir-errors'])
}

function errorsPart(operation: JsonObject, { resolve }: Surroundings): Markup {
  const responses = Object.entries(objectOf(operation['responses'])).filter(([status]) => status !== '200')
  const items = responses.map(([status, response]) => {
    const codes = errorRows(resolve(objectOf(response))).map(({ kind, code }) => {
      return html`<a href="#error-${textOf(kind)}"><code>${String(code)}</code></a>`
    })
    return html`<li><span class="status">${status}</span><span>${separated(html`, `, codes)}</span></li>`
  })
  const statuses = responses.map(([status]) => html`${status}`)
  return html`<details><summary>Errors: ${separated(html`, `, statuses)}</summary>
<ul class="errors">${items}</ul></details>`
}

/** The examples of a request, by language; a script shows one language at a time. */
function samplesPart(operation: JsonObject): Markup {
  const list = objectsOf(operation['x-codeSamples'])
  const languages = [...new Set(list.map(({ lang }) => textOf(lang)))]
  const panels = languages.map((lang) => {
    const own = list.filter((sample) => sample['lang'] === lang)
    return html`<div class="panel" data-panel="${lang}">${own.map((sample) => samplePart(sample, lang))}</div>`
  })
  return html`<div class="samples" data-tabs="language">${panels}</div>`
}

function samplePart(sample: JsonObject, lang: string): Markup {
  const label = textOf(sample['label'])
  return html`<figure><figcaption>${label}</figcaption>${codeBlock(
    textOf(sample['source']),
    isLanguage(lang) ? lang : 'text',
    `Example: ${label}`,
  )}</figure>`
}

function answerExamples(operation: JsonObject): readonly Markup[] {
  const content = objectOf(objectOf(objectOf(operation['responses'])['200'])['content'])
  return Object.entries(content).flatMap(([type, media]) => {
    const { example } = objectOf(media)
    if (example === undefined) return []
    const isText = typeof example === 'string'
    const code = isText ? example.trimEnd() : JSON.stringify(example, null, 2)
    const label = isText ? 'Answer, streamed' : 'Answer'
    return [
      html`<figure class="answer"><figcaption>${label} <span>${type}</span></figcaption>${codeBlock(
        code,
        isText ? 'text' : 'json',
        `Example: ${label}`,
      )}</figure>`,
    ]
  })
}
