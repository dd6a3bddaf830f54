const __vite__mapDeps=(i,m=__vite__mapDeps,d=(m.f||(m.f=["assets/check-graph-DocTuaob.js","assets/icons-C5zKG0OX.js","assets/rolldown-runtime-WkwZ5CU-.js","assets/graph-B-ND3r-_.js","assets/react-dom-DjchcMX3.js","assets/hooks-O2zVoCCl.js","assets/loops-Bbsm_P6n.js","assets/strip-BTM5ldQS.js","assets/graph-ytP4VSnF.css"])))=>i.map(i=>d[i]);
import{n as e}from"./rolldown-runtime-WkwZ5CU-.js";import{C as t,P as n,T as r,b as i,i as a,p as o,r as s,v as c}from"./icons-C5zKG0OX.js";import{n as l}from"./hooks-O2zVoCCl.js";import{c as u,f as d,h as f,r as p,u as m}from"./common-B0-sj3CB.js";import{a as h,i as g,n as _,t as v}from"./router-Das_7_Na.js";import{n as y}from"./index-DFepkmsD.js";import{t as b}from"./source-D1AqXAJP.js";var x=e(n(),1),S=[{dialect:`Loom`,shows:`a loop that runs until its condition is met`,text:`{
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
`}],C=a(),w=(0,x.lazy)(()=>y(()=>import(`./check-graph-DocTuaob.js`),__vite__mapDeps([0,1,2,3,4,5,6,7,8]))),T=`windlass.draft`,E=5,D=19.2;function O(){let{query:e}=h(),n=e.get(`from`),a=e.get(`version`)?Number(e.get(`version`)):null,y=l(n?`definition ${n} ${a??``}`:null,e=>i.definition(n??``,a,e)),[D,O]=(0,x.useState)(()=>n?``:sessionStorage.getItem(T)??``),[A,j]=(0,x.useState)(n??``),[M,N]=(0,x.useState)(null),[P,F]=(0,x.useState)(null),[I,L]=(0,x.useState)(!1),[R,z]=(0,x.useState)(`problems`);(0,x.useEffect)(()=>{y.value&&O(y.value.source)},[y.value]),(0,x.useEffect)(()=>{if(n||sessionStorage.setItem(T,D),D.trim()===``){N(null);return}let e=new AbortController,a=setTimeout(()=>{i.check({source:D,...A.trim()?{name:A.trim()}:{}},e.signal).then(e=>{N(e),F(null)},e=>{r(e)||F(t(e))})},350);return()=>{clearTimeout(a),e.abort()}},[D,A,n]);let B=async()=>{L(!0),F(null);try{let e=await i.register({source:D,...A.trim()?{name:A.trim()}:{}});sessionStorage.removeItem(T),_(g([`definitions`,e.name]))}catch(e){F(t(e)),L(!1)}},V=M?.problems??[],H=V.filter(e=>e.line>0),U=(0,x.useRef)(null),W=V.filter(e=>e.severity===`error`).length;return(0,C.jsxs)(`div`,{className:`page fills`,children:[(0,C.jsx)(m,{title:n?(0,C.jsxs)(`span`,{className:`wrap`,children:[`Edit `,n]}):`Check a definition`,note:(0,C.jsx)(v,{to:`/definitions`,children:`All definitions`}),children:(0,C.jsx)(p,{variant:`primary`,icon:`check`,disabled:I||!M?.valid,onClick:()=>void B(),children:`Register`})}),y.problem?(0,C.jsx)(d,{problem:y.problem}):null,(0,C.jsxs)(`div`,{className:`editor-panes`,children:[(0,C.jsxs)(`div`,{className:`stack editor-side`,children:[(0,C.jsx)(u,{label:`Name`,hint:M?.name&&!A?`The definition is named ${M.name}.`:`Required only if the definition has no name.`,children:(0,C.jsx)(`input`,{type:`text`,value:A,placeholder:M?.name??``,spellCheck:!1,onChange:e=>j(e.target.value)})}),(0,C.jsx)(k,{text:D,marked:new Set(V.map(e=>e.line)),onChange:O,jump:U})]}),(0,C.jsxs)(`div`,{className:`stack editor-side`,children:[(0,C.jsx)(`div`,{className:`row wraps check-state`,role:`status`,children:D.trim()===``?(0,C.jsx)(`span`,{className:`muted`,children:`Write or paste a Loom, NoETL or zenflow definition; it is checked while you type. Or start from a sample:`}):M===null?(0,C.jsx)(`span`,{className:`muted`,children:`Checking…`}):M.valid?(0,C.jsxs)(`span`,{className:`status tone-good`,children:[(0,C.jsx)(s,{status:`succeeded`}),` The definition is valid`,M.dialect?`, ${M.dialect}`:``,V.length>0?`, with ${c(V.length,`warning`)}`:``]}):(0,C.jsxs)(`span`,{className:`status tone-bad`,children:[(0,C.jsx)(s,{status:`failed`}),` `,c(W,`problem`)]})}),D.trim()===``?(0,C.jsx)(`ul`,{className:`panel pick-list samples`,children:S.map(e=>(0,C.jsx)(`li`,{children:(0,C.jsxs)(`button`,{type:`button`,onClick:()=>O(e.text),children:[(0,C.jsx)(`strong`,{children:e.dialect}),(0,C.jsx)(`span`,{className:`muted`,children:e.shows})]})},e.dialect))}):null,H.length>0?(0,C.jsxs)(`ul`,{className:`problem-list`,"aria-label":`Problems`,children:[H.slice(0,E).map((e,t)=>(0,C.jsx)(`li`,{className:e.severity===`warning`?`tone-warn`:`tone-bad`,children:(0,C.jsxs)(`button`,{type:`button`,className:`more-link flat`,onClick:()=>U.current?.(e.line,e.column),children:[(0,C.jsxs)(`span`,{className:`mono small`,children:[e.line,`:`,e.column]}),` `,(0,C.jsx)(`span`,{className:`problem-message`,children:e.message})]})},t)),H.length>E?(0,C.jsxs)(`li`,{className:`muted small`,children:[`and `,o(H.length-E),` more`]}):null]}):null,P?(0,C.jsx)(d,{problem:P}):null,M?.graph?(0,C.jsx)(f,{label:`Preview`,current:R,onChoose:z,tabs:[{id:`problems`,title:`Text`},{id:`graph`,title:`Graph`}]}):null,M?.graph&&R===`graph`?(0,C.jsx)(w,{graph:M.graph}):D.trim()===``?null:(0,C.jsxs)(C.Fragment,{children:[V.some(e=>e.line===0)?V.filter(e=>e.line===0).map((e,t)=>(0,C.jsxs)(`p`,{className:`bad-text`,children:[e.code,`: `,e.message]},t)):null,(0,C.jsx)(b,{text:D,annotations:H})]})]})]})]})}function k({text:e,marked:t,onChange:n,jump:r}){let i=(0,x.useRef)(null),a=(0,x.useRef)(null);r.current=(t,n)=>{let r=e.split(`
`).slice(0,t-1).reduce((e,t)=>e+t.length+1,0),i=r+Array.from(e.slice(r)).slice(0,n-1).join(``).length;a.current?.focus(),a.current?.setSelectionRange(i,i),a.current&&(a.current.scrollTop=Math.max(0,(t-4)*D))};let o=e.split(`
`).length;return(0,C.jsxs)(`div`,{className:`editor`,children:[(0,C.jsx)(`div`,{className:`gutter`,ref:i,"aria-hidden":`true`,children:Array.from({length:o},(e,n)=>(0,C.jsx)(`span`,{className:t.has(n+1)?`marked`:void 0,children:n+1},n))}),(0,C.jsx)(`textarea`,{ref:a,"aria-label":`Definition`,value:e,wrap:`off`,spellCheck:!1,autoCapitalize:`off`,autoComplete:`off`,onScroll:e=>{i.current&&(i.current.scrollTop=e.currentTarget.scrollTop)},onChange:e=>n(e.target.value),onKeyDown:e=>{e.key===`Escape`&&e.currentTarget.blur(),!(e.key!==`Tab`||e.shiftKey)&&(e.preventDefault(),e.currentTarget.setRangeText(`  `,e.currentTarget.selectionStart,e.currentTarget.selectionEnd,`end`),n(e.currentTarget.value))}})]})}export{O as default};