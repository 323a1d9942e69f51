// What scrolls sideways can be scrolled by the keyboard, and the theme's copy buttons have names of their own.
const reach = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .formula, pre > code")) {
    box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1;
  }
  document.querySelectorAll(".md-code__nav").forEach((buttons, i) => { buttons.ariaLabel = `Code block ${i + 1}`; });
};
addEventListener("load", reach);
addEventListener("resize", reach);
