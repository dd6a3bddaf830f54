const __vite__mapDeps=(i,m=__vite__mapDeps,d=(m.f||(m.f=["assets/check-graph-ByaCi9Ze.js","assets/vendor-B6F5thCX.js","assets/rolldown-runtime-XKyaHtl9.js","assets/graph-BrZVed3A.js","assets/common-BNuXKlDF.js","assets/loops-CdH_tIgQ.js","assets/strip-DJvFNywo.js","assets/graph-ytP4VSnF.css"])))=>i.map(i=>d[i]);
import{r as e}from"./rolldown-runtime-XKyaHtl9.js";import{a as t,n}from"./vendor-B6F5thCX.js";import{C as r,K as i,M as a,O as o,Q as s,T as c,V as l,Y as u,b as d,h as f,l as p,o as m,ot as h,s as g,st as _,u as v,x as y}from"./common-BNuXKlDF.js";import{r as b}from"./index-C7k3ewIb.js";import{t as x}from"./source-DHyTKij8.js";var S=e(t(),1),C=[{dialect:`Loom`,shows:`a loop that runs until its condition is met`,text:`{
  "name": "first-loop",
  "parameters": { "max": { "type": "Int", "defaultValue": 10 } },
  "actions": {
    "prepare": {
      "type": "InitializeVariable",
      "inputs": { "variables": [{ "name": "counter", "type": "integer", "value": 0 }] }
    },
    "count": {
      "type": "until",
      "condition": "@greaterOrEquals(variables('counter'), parameters('max'))",
      "actions": {
        "add": { "type": "IncrementVariable", "inputs": { "name": "counter", "value": 1 } }
      },
      "limit": { "count": 100, "timeout": "PT10M" },
      "delay": { "interval": { "count": 1, "unit": "second" } },
      "runAfter": { "prepare": ["Succeeded"] }
    }
  },
  "outputs": { "counter": { "type": "Int", "value": "@variables('counter')" } }
}
`},{dialect:`NoETL`,shows:`a loop over a list, max. four items in parallel`,text:`apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: first-list
workload:
  cities: [Porto, Bergen, Riga, Gdynia, Cork]
workflow:
  - step: visit
    loop:
      spec: { mode: parallel, max_in_flight: 4 }
      in: "{{ workload.cities }}"
      iterator: city
    tool:
      kind: noop
      result: { city: "{{ iter.city }}", letters: "{{ iter.city | length }}" }
`},{dialect:`zenflow`,shows:`two agents, repeated until one approves`,text:`name: first-agents
description: One agent writes a draft, another reviews it, until the review passes.

agents:
  writer:
    description: "Writes short, clear texts."
  reviewer:
    description: "Lists what is missing, or answers OK."

steps:
  - id: draft
    loop:
      maxIterations: 5
      until: "steps.review.content.contains('OK')"
      steps:
        - id: write
          agent: writer
          instructions: "Write or revise the draft."
        - id: review
          agent: reviewer
          dependsOn: [write]
          instructions: "Review the draft. Answer OK if nothing is missing."
`}],w=n(),T=(0,S.lazy)(()=>b(()=>import(`./check-graph-ByaCi9Ze.js`),__vite__mapDeps([0,1,2,3,4,5,6,7]))),E=`windlass.draft`,D=5,O=19.2;function k(){let{query:e}=v(),t=e.get(`from`),n=e.get(`version`)?Number(e.get(`version`)):null,b=u(t?`definition ${t} ${n??``}`:null,e=>s.definition(t??``,n,e)),[O,k]=(0,S.useState)(()=>t?``:sessionStorage.getItem(E)??``),[j,M]=(0,S.useState)(t??``),[N,P]=(0,S.useState)(null),[F,I]=(0,S.useState)(null),[L,R]=(0,S.useState)(!1),[z,B]=(0,S.useState)(`problems`);(0,S.useEffect)(()=>{b.value&&k(b.value.source)},[b.value]),(0,S.useEffect)(()=>{if(t||sessionStorage.setItem(E,O),O.trim()===``){P(null);return}let e=new AbortController,n=setTimeout(()=>{s.check({source:O,...j.trim()?{name:j.trim()}:{}},e.signal).then(e=>{P(e),I(null)},e=>{_(e)||I(h(e))})},350);return()=>{clearTimeout(n),e.abort()}},[O,j,t]);let V=async()=>{R(!0),I(null);try{let e=await s.register({source:O,...j.trim()?{name:j.trim()}:{}});sessionStorage.removeItem(E),g(p([`definitions`,e.name]))}catch(e){I(h(e)),R(!1)}},H=N?.problems??[],U=H.filter(e=>e.line>0),W=(0,S.useRef)(null),G=H.filter(e=>e.severity===`error`).length;return(0,w.jsxs)(`div`,{className:`page fills`,children:[(0,w.jsx)(r,{title:t?(0,w.jsxs)(`span`,{className:`wrap`,children:[`Edit `,t]}):`Check a definition`,note:(0,w.jsx)(m,{to:`/definitions`,children:`All definitions`}),children:(0,w.jsx)(f,{variant:`primary`,icon:`check`,disabled:L||!N?.valid,onClick:()=>void V(),children:`Register`})}),b.problem?(0,w.jsx)(c,{problem:b.problem}):null,(0,w.jsxs)(`div`,{className:`editor-panes`,children:[(0,w.jsxs)(`div`,{className:`stack editor-side`,children:[(0,w.jsx)(y,{label:`Name`,hint:N?.name&&!j?`The definition is named ${N.name}.`:`Required only if the definition has no name.`,children:(0,w.jsx)(`input`,{type:`text`,value:j,placeholder:N?.name??``,spellCheck:!1,onChange:e=>M(e.target.value)})}),(0,w.jsx)(A,{text:O,marked:new Set(H.map(e=>e.line)),onChange:k,jump:W})]}),(0,w.jsxs)(`div`,{className:`stack editor-side`,children:[(0,w.jsx)(`div`,{className:`row wraps check-state`,role:`status`,children:O.trim()===``?(0,w.jsx)(`span`,{className:`muted`,children:`Write or paste a Loom, NoETL or zenflow definition; it is checked while you type. Or start from a sample:`}):N===null?(0,w.jsx)(`span`,{className:`muted`,children:`Checking…`}):N.valid?(0,w.jsxs)(`span`,{className:`status tone-good`,children:[(0,w.jsx)(a,{status:`succeeded`}),` The definition is valid`,N.dialect?`, ${N.dialect}`:``,H.length>0?`, with ${i(H.length,`warning`)}`:``]}):(0,w.jsxs)(`span`,{className:`status tone-bad`,children:[(0,w.jsx)(a,{status:`failed`}),` `,i(G,`problem`)]})}),O.trim()===``?(0,w.jsx)(`ul`,{className:`panel pick-list samples`,children:C.map(e=>(0,w.jsx)(`li`,{children:(0,w.jsxs)(`button`,{type:`button`,onClick:()=>k(e.text),children:[(0,w.jsx)(`strong`,{children:e.dialect}),(0,w.jsx)(`span`,{className:`muted`,children:e.shows})]})},e.dialect))}):null,U.length>0?(0,w.jsxs)(`ul`,{className:`problem-list`,"aria-label":`Problems`,children:[U.slice(0,D).map((e,t)=>(0,w.jsxs)(`li`,{className:e.severity===`warning`?`tone-warn`:`tone-bad`,children:[(0,w.jsxs)(`button`,{type:`button`,className:`more-link flat`,onClick:()=>W.current?.(e.line,e.column),children:[(0,w.jsxs)(`span`,{className:`mono small`,children:[e.line,`:`,e.column]}),` `,(0,w.jsx)(`span`,{className:`problem-message`,children:e.message})]}),` `,(0,w.jsx)(d,{code:e.code})]},t)),U.length>D?(0,w.jsxs)(`li`,{className:`muted small`,children:[`and `,l(U.length-D),` more`]}):null]}):null,F?(0,w.jsx)(c,{problem:F}):null,N?.graph?(0,w.jsx)(o,{label:`Preview`,current:z,onChoose:B,tabs:[{id:`problems`,title:`Text`},{id:`graph`,title:`Graph`}]}):null,N?.graph&&z===`graph`?(0,w.jsx)(T,{graph:N.graph}):O.trim()===``?null:(0,w.jsxs)(w.Fragment,{children:[H.some(e=>e.line===0)?H.filter(e=>e.line===0).map((e,t)=>(0,w.jsxs)(`p`,{className:`bad-text`,children:[e.code,`: `,e.message]},t)):null,(0,w.jsx)(x,{text:O,annotations:U})]})]})]})]})}function A({text:e,marked:t,onChange:n,jump:r}){let i=(0,S.useRef)(null),a=(0,S.useRef)(null);r.current=(t,n)=>{let r=e.split(`
`).slice(0,t-1).reduce((e,t)=>e+t.length+1,0),i=r+Array.from(e.slice(r)).slice(0,n-1).join(``).length;a.current?.focus(),a.current?.setSelectionRange(i,i),a.current&&(a.current.scrollTop=Math.max(0,(t-4)*O))};let o=e.split(`
`).length;return(0,w.jsxs)(`div`,{className:`editor`,children:[(0,w.jsx)(`div`,{className:`gutter`,ref:i,"aria-hidden":`true`,children:Array.from({length:o},(e,n)=>(0,w.jsx)(`span`,{className:t.has(n+1)?`marked`:void 0,children:n+1},n))}),(0,w.jsx)(`textarea`,{ref:a,"aria-label":`Definition`,value:e,wrap:`off`,spellCheck:!1,autoCapitalize:`off`,autoComplete:`off`,onScroll:e=>{i.current&&(i.current.scrollTop=e.currentTarget.scrollTop)},onChange:e=>n(e.target.value),onKeyDown:e=>{e.key===`Escape`&&e.currentTarget.blur(),!(e.key!==`Tab`||e.shiftKey)&&(e.preventDefault(),e.currentTarget.setRangeText(`  `,e.currentTarget.selectionStart,e.currentTarget.selectionEnd,`end`),n(e.currentTarget.value))}})]})}export{k as default};