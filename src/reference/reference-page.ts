/** The page of the reference, from the OpenAPI document: one HTML document without anything from elsewhere. */

import { isArray, isObject, type JsonObject, type JsonValue } from '../core/json.ts'
import { objectOf, objectsOf, textOf } from './document-values.ts'
import { blocks, html, inline, type Markup, separated } from './markup.ts'
import { type DocumentedOperation, errorRows, operationId, operationSection } from './operation-html.ts'
import type { REFERENCE_FILES } from './reference-paths.ts'
import { schemaBody } from './schema-html.ts'

/** Sections of the page after those of the tags. */
const SHARED = 'Shared schemas'

export function referencePage(document: JsonObject, files: typeof REFERENCE_FILES): string {
  const tags = tagsOf(document)
  const schemas = schemasByTag(document, tags)
  const shapes = { document, ofRequests: schemasOfRequests(document, tags) }
  const info = objectOf(document['info'])
  const title = `${textOf(info['title'])} API reference`
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${files.icon}" type="image/svg+xml">
<link rel="stylesheet" href="${files.style}">
<script src="${files.script}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header class="top"><a class="brand" href="#content">weir <span>API reference</span></a>
<span class="links"><a href="/">Console</a>
<a href="${files.document}" download="openapi.json">openapi.json</a></span></header>
${navigation(tags, schemas)}
<main id="content">
<section class="intro" id="overview"><h1>${title}</h1><div class="text">${blocks(textOf(info['description']))}
${authentication(document)}</div></section>
${tags.map((tag) => tagSection(tag, schemas.get(tag.name) ?? [], shapes))}
${schemaSection(SHARED, schemas.get(SHARED) ?? [], shapes)}
${errorSection(document)}
</main>
</body>
</html>
`
  return page.text
}

interface Tag {
  readonly name: string
  readonly description: string
  readonly operations: readonly DocumentedOperation[]
}

interface Shapes {
  readonly document: JsonObject
  /** Names of schemas of requests, and of what these are made of. There, null means absent. */
  readonly ofRequests: ReadonlySet<string>
}

function schemasOfRequests(document: JsonObject, tags: readonly Tag[]): ReadonlySet<string> {
  const bodies = tags.flatMap(({ operations }) => operations.map(({ operation }) => operation['requestBody'] ?? null))
  return reached(bodies, schemasOf(document), new Set())
}

function anchorOf(name: string): string {
  return name.toLowerCase().replaceAll(' ', '-')
}

function tagsOf(document: JsonObject): readonly Tag[] {
  const operations = Object.entries(objectOf(document['paths'])).flatMap(([path, methods]) =>
    Object.entries(objectOf(methods)).map(
      ([method, operation]): DocumentedOperation => ({ method, path, operation: objectOf(operation) }),
    ),
  )
  return objectsOf(document['tags']).map((tag) => {
    const name = textOf(tag['name'])
    const own = operations.filter(({ operation: { tags } }) => isArray(tags) && tags.includes(name))
    return { name, description: textOf(tag['description']), operations: own }
  })
}

function schemasOf(document: JsonObject): JsonObject {
  return objectOf(objectOf(document['components'])['schemas'])
}

/** The names of the schemas that a part of the document refers to, and those that these refer to, in reading order. */
function reached(part: JsonValue, schemas: JsonObject, found: Set<string>): Set<string> {
  if (isArray(part)) for (const each of part) reached(each, schemas, found)
  if (!isObject(part)) return found
  for (const [name, value] of Object.entries(part)) {
    if (name === '$ref' && typeof value === 'string' && value.startsWith('#/components/schemas/')) {
      const schema = value.slice(value.lastIndexOf('/') + 1)
      if (found.has(schema)) continue
      found.add(schema)
      reached(schemas[schema] ?? null, schemas, found)
    } else if (value !== undefined && name !== 'mapping') reached(value, schemas, found)
  }
  return found
}

/** The schemas of one tag alone, by tag, and those of several under `SHARED`. */
function schemasByTag(document: JsonObject, tags: readonly Tag[]): ReadonlyMap<string, readonly string[]> {
  const schemas = schemasOf(document)
  const names = new Map<string, readonly string[]>()
  const seen = new Set<string>()
  const repeated = new Set<string>()
  for (const { name, operations } of tags) {
    const parts = operations.map(({ operation }) => operation)
    const found = reached(parts, schemas, new Set())
    for (const each of found) (seen.has(each) ? repeated : seen).add(each)
    names.set(name, [...found])
  }
  const own = [...names].map(([name, found]) => [name, found.filter((each) => !repeated.has(each))] as const)
  const others = Object.keys(schemas).filter((each) => repeated.has(each) || !seen.has(each))
  return new Map([...own, [SHARED, others]])
}

function navigation(tags: readonly Tag[], schemas: ReadonlyMap<string, readonly string[]>): Markup {
  const group = (name: string, operations: readonly DocumentedOperation[]) => {
    const own = schemas.get(name) ?? []
    return html`<li><a href="#${anchorOf(name)}">${name}</a><ul>${operations.map(operationEntry)}</ul>
<details><summary>Schemas</summary><ul class="names">${own.map(schemaEntry)}</ul></details></li>`
  }
  return html`<nav aria-label="Contents"><details class="contents-menu" open><summary>Contents</summary>
<label class="filter">Filter <input type="search" id="filter" autocomplete="off" spellcheck="false"></label>
<ul class="tree"><li id="found-fields" hidden>Fields<ul class="names"></ul></li>
<li><a href="#overview">Overview</a></li>
${tags.map((tag) => group(tag.name, tag.operations))}
${group(SHARED, [])}
<li><a href="#errors">Errors</a></li></ul></details></nav>`
}

function operationEntry(operation: DocumentedOperation): Markup {
  const { method, path } = operation
  const badge = html`<span class="method ${method}">${method.toUpperCase()}</span>`
  return html`<li><a href="#${operationId(operation)}">${badge} ${path}</a></li>`
}

function schemaEntry(name: string): Markup {
  return html`<li><a href="#${name}">${name}</a></li>`
}

function authentication(document: JsonObject): Markup {
  const schemes = Object.values(objectOf(objectOf(document['components'])['securitySchemes']))
  const items = schemes.map((scheme) => html`<li>${inline(textOf(objectOf(scheme)['description']))}</li>`)
  return html`<p><strong>Authentication.</strong> Exactly one of these headers:</p><ul>${items}</ul>`
}

function tagSection(tag: Tag, names: readonly string[], shapes: Shapes): Markup {
  const left = new Set(names)
  const around = {
    resolve: (value: JsonObject) => resolved(value, shapes.document),
    takeSchema: (name: string) => (left.delete(name) ? schemaPart(name, shapes) : undefined),
  }
  return html`<section class="tag" id="${anchorOf(tag.name)}"><h2>${tag.name}</h2>
<p class="lead">${inline(tag.description)}</p>
${tag.operations.map((operation) => operationSection(operation, around))}
${[...left].map((name) => schemaPart(name, shapes))}</section>`
}

function resolved(value: JsonObject, document: JsonObject): JsonObject {
  const { $ref } = value
  if (typeof $ref !== 'string') return value
  let found: JsonValue = document
  for (const name of $ref.slice(2).split('/')) found = objectOf(found)[name] ?? null
  return objectOf(found)
}

function schemaSection(title: string, names: readonly string[], shapes: Shapes): Markup {
  const parts = names.map((name) => schemaPart(name, shapes))
  return html`<section class="tag" id="${anchorOf(title)}"><h2>${title}</h2>${parts}</section>`
}

function schemaPart(name: string, { document, ofRequests }: Shapes): Markup {
  const schema = objectOf(schemasOf(document)[name])
  return html`<section class="schema" id="${name}"><h4><a class="anchor" href="#${name}">${name}</a></h4>
${blocks(textOf(schema['description']))}${schemaBody(schema, ofRequests.has(name))}</section>
`
}

const OF_BODY = html` <abbr title="an error of the body">*</abbr>`

function errorSection(document: JsonObject): Markup {
  const rows = [...errorRows(document)].sort((a, b) => Number(a['status']) - Number(b['status']))
  const cells = rows.map(
    (row) => html`<tr id="error-${textOf(row['kind'])}"><td><span class="status">${String(row['status'])}</span></td>
<td><code>${String(row['code'])}</code>${row['of_body'] === true && OF_BODY}</td>
<td>${errorTypes(row)}</td>
<td>${inline(textOf(row['meaning']))}<br><span class="about">${inline(textOf(row['advice']))}</span></td></tr>`,
  )
  return html`<section class="tag" id="errors"><h2>Errors</h2>
<p class="lead">Every error is JSON and has <code>cache-control: no-store</code>. The shape depends on the path:
<a href="#Error">Error</a>, on Messages paths <a href="#MessagesError">MessagesError</a>, and there
<a href="#MessagesBodyError">MessagesBodyError</a> for errors of the body (*). The second type is that of Messages.</p>
<div class="wide" tabindex="0" role="region" aria-label="All errors"><table>
<thead><tr><th scope="col">Status</th><th scope="col">Code</th><th scope="col">Types</th>
<th scope="col">Meaning, and what to do</th></tr></thead>
<tbody>${cells}</tbody></table></div></section>`
}

function errorTypes(row: JsonObject): readonly Markup[] {
  const types = [...new Set([textOf(row['type']), textOf(row['messages_type'])])]
  const codes = types.map((type) => html`<code>${type}</code>`)
  return separated(html`<br>`, codes)
}
