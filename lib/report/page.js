// Shows the values at the step under the pointer, in all charts at once. Without it the legends
// have the last values.
"use strict";
(() => {
  const numbers = (text) => text.split(",").map(Number);

  const charts = [...document.querySelectorAll("figure.chart")].map((figure) => {
    const plot = figure.querySelector(".plot");
    const [left, right, first, last] = ["left", "right", "first", "last"].map((name) => Number(plot.dataset[name]));
    const at = figure.querySelector(".at");
    const values = [...figure.querySelectorAll(".key b")];
    const shown = [at, ...values].map((element) => element.textContent);
    let curves;
    return {
      plot, left, right, first, last, at, values, shown,
      cursor: plot.querySelector(".cursor"),
      curves: () => (curves ??= [...plot.querySelectorAll("[data-steps]")].map((path) => (
        {steps: numbers(path.dataset.steps), values: path.dataset.values.split(",")}))),
    };
  });

  // The index of the step nearest to this one; steps ascend.
  const nearest = (steps, step) => {
    let low = 0, high = steps.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (steps[middle] < step) low = middle + 1; else high = middle;
    }
    return low > 0 && step - steps[low - 1] < steps[low] - step ? low - 1 : low;
  };

  const show = (step) => {
    for (const chart of charts) {
      const x = chart.left + (chart.right - chart.left) * (step - chart.first) / (chart.last - chart.first);
      chart.cursor.setAttribute("transform", `translate(${x})`);
      chart.cursor.style.visibility = "visible";
      chart.at.textContent = `step ${Math.round(step).toLocaleString("en")}`;
      chart.curves().forEach((curve, i) => {
        chart.values[i].textContent = curve.values[nearest(curve.steps, step)];
      });
    }
  };

  const hide = () => {
    for (const chart of charts) {
      chart.cursor.style.visibility = "hidden";
      [chart.at, ...chart.values].forEach((element, i) => { element.textContent = chart.shown[i]; });
    }
  };

  for (const chart of charts) {
    const move = (event) => {
      const box = chart.plot.getBoundingClientRect();
      const x = (event.clientX - box.left) * chart.plot.viewBox.baseVal.width / box.width;
      const share = Math.min(1, Math.max(0, (x - chart.left) / (chart.right - chart.left)));
      show(chart.first + share * (chart.last - chart.first));
    };
    chart.plot.addEventListener("pointermove", move);
    chart.plot.addEventListener("pointerdown", move);
    chart.plot.addEventListener("pointerleave", hide);
  }
})();
