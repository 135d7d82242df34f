"""The style sheet of pages, and a short script that copies commands and unfolds everything for printing.

Contrast of text is at least 4.5:1, of lines and marks at least 3:1 against what they stand on (WCAG 2.2, AA), in both
schemes. The series are Okabe and Ito's colours, made darker for a light background where they are too pale for that.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256

from distcheck.reporters import charts

LIGHT = """--page:#fff;--ink:#1a1c20;--soft:#565e6c;--line:#d5d9e0;--panel:#f5f6f8;--accent:#0b5cad;
--error:#b3191f;--warning:#8a5200;--info:#0b5cad;--good:#19682f;--odd:#6b3fa0;--on-badge:#fff;
--mark:#ffe3a1;--fix:#eff8f1;--gone:#fdebea;--new:#e4f5e8;--loud:#c2410c;--bar:#4a6fa5;
--s0:#0072b2;--s1:#c04b00;--s2:#00805c;--s3:#a8487f;--s4:#8a6d00;--s5:#2a7fb0;--s6:#5b5b5b;--s7:#7a4fbf"""
DARK = """--page:#14161a;--ink:#e8eaee;--soft:#a3abb9;--line:#363b45;--panel:#1d2026;--accent:#7db8f5;
--error:#ff8d85;--warning:#f0b65a;--info:#7db8f5;--good:#6fd08c;--odd:#c3a2f2;--on-badge:#14161a;
--mark:#574414;--fix:#16231a;--gone:#391c1d;--new:#173021;--loud:#ff9a5c;--bar:#7c9fd3;
--s0:#56a8e0;--s1:#f08a3c;--s2:#2bbd92;--s3:#e08dbb;--s4:#e6c84f;--s5:#8fd0f5;--s6:#b5b5b5;--s7:#b79bf0"""

_PAGE = """
*{box-sizing:border-box}
html{scroll-padding-top:1rem;-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif}
main,.inside,footer{max-width:1040px;margin:0 auto;padding:0 24px}
main{padding-bottom:2rem}
h1{font-size:1.6rem;line-height:1.3;margin:.25rem 0 1rem;overflow-wrap:anywhere}
h2{font-size:1.25rem;line-height:1.3;margin:2.4rem 0 .8rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.35rem 0;overflow-wrap:anywhere}
a{color:var(--accent);text-underline-offset:.15em}
a:focus-visible,button:focus-visible,summary:focus-visible,[tabindex]:focus-visible{outline:2px solid var(--accent);
outline-offset:2px}
.soft,caption,figcaption,dt,.about,.place,.by,.label{color:var(--soft)}
.soft,figcaption{font-size:.9rem}
.option{white-space:nowrap}
.count{color:var(--soft);font-weight:400}
.badge{display:inline-block;padding:.05em .55em;border-radius:4px;font-size:.78rem;font-weight:600;line-height:1.5;
color:var(--on-badge);background:var(--soft);white-space:nowrap}
.badge.error{background:var(--error)}.badge.warning{background:var(--warning)}.badge.info{background:var(--info)}
.badge.good{background:var(--good)}.badge.odd{background:var(--odd)}
"""
_TOP = """
.top{border-top:6px solid var(--soft);background:var(--panel);border-bottom:1px solid var(--line);
padding:1.3rem 0 1.2rem}
.top.error{border-top-color:var(--error)}.top.warning{border-top-color:var(--warning)}
.top.good{border-top-color:var(--good)}.top.plain{border-top-color:var(--info)}
.about{font-size:.9rem;margin:0}.about strong{color:var(--ink)}
.tally{display:flex;flex-wrap:wrap;gap:.5rem;list-style:none;margin:0;padding:0}
.tally a,.tally .none{display:block;padding:.3rem .8rem;border:1px solid var(--line);border-radius:6px;
background:var(--page);color:var(--soft);font-size:.9rem;text-decoration:none;font-variant-numeric:tabular-nums}
.tally .none{background:none}
.tally b{font-size:1.1rem;color:inherit}
.tally a b{color:var(--ink)}
.tally a:hover{border-color:var(--accent)}
.tally a.error{border-color:var(--error)}.tally a.error b{color:var(--error)}
.tally a.warning{border-color:var(--warning)}.tally a.warning b{color:var(--warning)}
.tally a.info b{color:var(--info)}
.tally a.unseen{border-style:dashed}
"""
_FINDINGS = """
.note{margin:1.4rem 0 0;padding:.5rem 1.1rem;border:1px solid var(--warning);border-radius:6px}
.finding{border:1px solid var(--line);border-left:5px solid var(--info);border-radius:6px;padding:.85rem 1.1rem;
margin:.9rem 0}
.finding.error{border-left-color:var(--error)}.finding.warning{border-left-color:var(--warning)}
.finding>:last-child{margin-bottom:0}
.finding:target{outline:2px solid var(--accent);outline-offset:2px}
.title{display:flex;flex-wrap:wrap;gap:.1rem .6rem;align-items:baseline;font-size:1rem;line-height:1.5;margin:0;
overflow-wrap:anywhere;min-width:0}
.name,.rule{font-weight:600}td .rule{font-weight:400}
.place{font-weight:400;font-size:.88rem;margin-left:auto;font-family:ui-monospace,"DejaVu Sans Mono",Consolas,monospace;
overflow-wrap:anywhere;min-width:0}
.message{font-size:1.05rem;margin:.4rem 0 .6rem}
.finding.info{padding:.5rem 1.1rem}
.finding.info>summary{margin-left:.7rem}
.finding.info>summary{list-style-position:outside}
.finding.info .message{display:block;font-size:1rem;margin:.15rem 0}
.label{font-size:.85rem;font-weight:600;margin:.6rem 0 .1rem}
.flow ol{margin:.1rem 0 .6rem;padding-left:1.6rem;font-size:.92rem}
dl{display:grid;grid-template-columns:minmax(6rem,max-content) 1fr;gap:.15rem 1.1rem;margin:.6rem 0;font-size:.92rem}
dt,dd{margin:0;overflow-wrap:anywhere;min-width:0}
code,pre,kbd{font-family:ui-monospace,"DejaVu Sans Mono",Consolas,monospace}
p code,li code,td code,.message code{font-size:.88em;background:var(--panel);padding:.08em .3em;border-radius:3px;
overflow-wrap:anywhere}
pre{margin:.5rem 0;padding:.6rem .8rem;background:var(--panel);border:1px solid var(--line);border-radius:5px;
overflow-x:auto;font-size:.86rem;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere}
pre.source,pre.change{white-space:pre;overflow-wrap:normal;line-height:1.35}
.number{color:var(--soft);user-select:none;-webkit-user-select:none}
mark{background:var(--mark);color:inherit;border-radius:2px}
.rank{display:inline-block;min-width:3em;text-align:right}
mark.underlined{text-decoration:underline;text-underline-offset:.2em}
.carets{color:var(--error);font-weight:700}
.warning .carets{color:var(--warning)}.info .carets{color:var(--info)}
del{text-decoration:none;background:var(--gone)}ins{text-decoration:none;background:var(--new)}
pre.quote{margin:0;padding:0;border:0;background:none}
.fix{background:var(--fix);border-radius:5px;padding:.5rem .9rem;margin:.7rem 0 0}
.fix strong{color:var(--good)}
.fix .risk strong{color:var(--warning)}
.fix pre,.fix p code{background:var(--page)}
.command{display:flex;align-items:flex-start;margin:.5rem 0;border:1px solid var(--line);border-radius:5px;
background:var(--page)}
.command pre{flex:1;min-width:0;margin:0;border:0;background:none;font-weight:600}
.copy{flex:none;margin:.4rem;padding:.15rem .7rem;border:1px solid var(--line);border-radius:4px;
background:var(--panel);color:var(--ink);font:inherit;font-size:.82rem;cursor:pointer}
.copy:hover{border-color:var(--accent)}
[hidden]{display:none}
"""
_TABLES = """
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;min-width:min(100%,22rem);font-size:.92rem;font-variant-numeric:tabular-nums}
caption{text-align:left;padding-bottom:.35rem}
th,td{padding:.32rem .9rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap;vertical-align:top}
th:first-child,td:first-child{padding-left:.2rem}
th{font-weight:600}
thead th{color:var(--soft);font-size:.85rem}
th:first-child,td.text,th.text{text-align:left}
table.prose{width:100%}
td.text,tbody th.text{white-space:normal;overflow-wrap:break-word;min-width:7rem;max-width:44rem}
tbody th.text{max-width:24rem;font-weight:500}
tbody tr:hover{background:var(--panel)}
details{margin:.5rem 0}
section>details{margin:.3rem 0}
section>details.finding{margin:.9rem 0}
summary{cursor:pointer;overflow-wrap:anywhere}
details:not(.finding)>summary{color:var(--soft);font-size:.92rem}
li{overflow-wrap:anywhere}
footer{margin-top:2rem;padding-top:.8rem;padding-bottom:2.5rem;color:var(--soft);font-size:.85rem}
"""
_CHARTS = f"""
.grid-of-figures{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,430px),1fr));gap:1rem}}
figure{{margin:0;padding:.8rem;border:1px solid var(--line);border-radius:6px;min-width:0}}
figure.whole{{margin-top:1rem;overflow-x:auto}}
.columns{{display:flex;flex-wrap:wrap;gap:0 1.5rem;align-items:flex-start}}
.columns>*{{flex:0 1 auto;min-width:0}}
.columns th,.columns td{{padding:.22rem .5rem}}
figcaption{{margin-bottom:.3rem;color:var(--ink);font-weight:600}}
svg{{display:block;max-width:100%;height:auto;font:12px system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif}}
figure.whole svg{{width:100%;min-width:600px}}
svg text{{fill:var(--ink)}}
svg .end{{text-anchor:end}}svg .middle{{text-anchor:middle}}svg .name{{fill:var(--soft);font-weight:400}}
svg .value{{font-size:11px}}
svg .halo{{paint-order:stroke;stroke:var(--page);stroke-width:4px;stroke-linejoin:round}}
svg .grid{{stroke:var(--line);fill:none}}svg .thin{{stroke-opacity:.45}}svg .axis{{stroke:var(--soft);fill:none}}
svg .curve{{stroke:var(--c);stroke-width:2;fill:none}}svg .whisker{{stroke:var(--c);stroke-width:1.3}}
svg .mark{{fill:var(--c);stroke:var(--page);stroke-width:1}}
svg .hollow{{fill:var(--page);stroke:var(--c);stroke-width:2}}
svg .expected path{{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:6 4;fill:none}}
svg .expected .goal{{stroke-dasharray:none;fill:var(--page)}}
svg .bar{{fill:var(--bar)}}svg .loud{{fill:var(--loud)}}
svg .empty{{fill:var(--panel);stroke:var(--line)}}svg .diagonal{{fill:var(--line)}}
{"".join(f".s{number}{{--c:var(--s{number})}}" for number in range(charts.COLORS))}
"""
_NARROW = """
@media (max-width:560px){
main,.inside,footer{padding-left:14px;padding-right:14px}
h1{font-size:1.3rem}
.finding{padding:.7rem .8rem}
.place{margin-left:0;width:100%}
dl{grid-template-columns:1fr;gap:0}
dd{margin-bottom:.4rem}
.command{flex-wrap:wrap}
.command pre{flex-basis:100%}
.copy{margin:0 .4rem .4rem auto}
table.prose,.prose caption,.prose tbody,.prose tr,.prose th,.prose td{display:block;padding:0;border:0;max-width:none}
table.prose thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.prose tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
.prose td,.prose th{text-align:left;white-space:normal;overflow-wrap:anywhere}
table.prose tbody th{max-width:none;font-weight:600}
.prose td:empty{display:none}
}
"""
_PRINT = f"""
@media print{{
:root{{color-scheme:light;{LIGHT}}}
@page{{margin:14mm}}
html{{font-size:10pt}}
body{{font-size:1rem;print-color-adjust:exact;-webkit-print-color-adjust:exact}}
main,.inside,footer{{max-width:none;padding:0}}
.top{{background:none;padding:.6rem 0}}
h2,h3,caption,.label{{break-after:avoid}}
figure,tr,li,.command,pre.source{{break-inside:avoid}}
.finding{{break-inside:avoid-page}}
section>p{{break-after:avoid}}
.grid-of-figures{{grid-template-columns:1fr 1fr}}
.wide,pre{{overflow:visible}}
pre.source,pre.change{{font-size:7.8pt}}
th,td{{padding:.15rem .55rem}}
td.text,tbody th.text{{min-width:0}}
.copy{{display:none}}
details::details-content{{content-visibility:visible;display:block;height:auto}}
summary{{list-style:none}}
a{{color:inherit;text-decoration:none}}
.finding a.rule::after{{content:" " attr(href);font-size:.8em;font-weight:400;color:var(--soft)}}
}}
"""
STYLE = (
    f":root{{color-scheme:light dark;{LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    f"{_PAGE}{_TOP}{_FINDINGS}{_TABLES}{_CHARTS}{_NARROW}{_PRINT}"
)

#: Buttons show only where this runs. Without a clipboard (a page that came by plain HTTP) the command is selected.
SCRIPT = """
for (const button of document.querySelectorAll("button.copy")) {
  const code = button.parentNode.querySelector("code");
  const show = (word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 2500);
  };
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      show("Copied");
    } catch {
      getSelection().selectAllChildren(code);
      show("Selected");
    }
  });
}
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open])")];
  unfolded.forEach((part) => { part.open = true; });
});
addEventListener("afterprint", () => { unfolded.forEach((part) => { part.open = false; }); });
"""
#: What the page's policy allows to run, and nothing else.
SCRIPT_HASH = f"sha256-{b64encode(sha256(SCRIPT.encode()).digest()).decode()}"
