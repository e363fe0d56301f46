"""The report's style: one family of colours for light and for dark, tables that print."""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d4d9df; --card: #f6f8fa; --page: #fff;
  --good: #17753a; --bad: #b3261e; --doubt: #8a5a00; --fill: #3b6fd4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --soft: #9aa5b1; --line: #363d46; --card: #1d2229; --page: #14181d;
    --good: #58c27d; --bad: #ff8a80; --doubt: #e3b341; --fill: #7aa2f7 } }
@media print {
  :root { color-scheme: light; --page: #fff; --ink: #000; --card: #fff; --soft: #444; --line: #bbb;
    --good: #17753a; --bad: #b3261e; --doubt: #8a5a00; --fill: #3b6fd4 }
  details { display: none } section, tr { break-inside: avoid } * { print-color-adjust: exact } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 68rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, Helvetica, Arial, sans-serif }
h1 { margin: .5rem 0 .2rem; font-size: 1.9rem; line-height: 1.2 }
h2 { margin: 2.4rem 0 .7rem; font-size: 1.15rem }
h3 { margin: 0 0 .5rem; font-size: .95rem }
p { margin: .4rem 0 }
.soft { color: var(--soft) }
header { padding: 1.4rem 1.6rem; border: 1px solid var(--line); border-left: .5rem solid var(--mark);
  border-radius: .5rem; background: var(--card) }
.pass { --mark: var(--good) } .fail { --mark: var(--bad) } .not_enough_rows { --mark: var(--doubt) }
.badge { display: inline-block; padding: .05rem .6rem; border: 1.5px solid var(--mark); border-radius: 1rem;
  color: var(--mark); font-size: .85rem; font-weight: 600; white-space: nowrap }
code, .digest { font: .85em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere }
table { width: 100%; border-collapse: collapse }
td, th { padding: .4rem .8rem .4rem 0; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
thead th { color: var(--soft); font-weight: 500 }
tbody th { font-weight: 500 }
td { font-variant-numeric: tabular-nums }
.gate { width: 34% } .gate .badge { margin-left: .3rem }
.scroll { overflow-x: auto; margin-top: 1rem }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(19rem, 1fr)); gap: 1rem }
.cards > section { padding: 1rem 1.1rem; border: 1px solid var(--line); border-radius: .5rem; background: var(--card);
  overflow-x: auto }
.confusion td { text-align: right; padding-right: .5rem;
  background: color-mix(in srgb, var(--fill) calc(var(--share) * .6), transparent) }
.confusion { font-size: .85rem }
.confusion th { padding-right: .5rem; overflow-wrap: anywhere }
.bars td, .bars th { border: 0; padding-top: .15rem; padding-bottom: .15rem }
.bars th { width: 1%; font-weight: 400; max-width: 9rem; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap }
.bars td:last-child { width: 1%; padding-right: 0; text-align: right }
.bar span { display: block; height: .8rem; margin-top: .3rem; border-radius: .2rem; background: var(--fill);
  min-width: 1px }
svg { display: block; width: 100%; max-width: 19rem; margin: auto }
svg text { fill: var(--soft); font-size: 11px }
.frame { fill: none; stroke: var(--line) }
.ideal { stroke: var(--soft); stroke-dasharray: 4 4 }
.line { fill: none; stroke: var(--fill); stroke-width: 2 }
.dots { fill: var(--fill); fill-opacity: .8 }
details { margin-top: 1.2rem } summary { cursor: pointer }
pre { white-space: pre-wrap; overflow-wrap: anywhere }
"""
