// Fill each drawing with the curves that the reader chooses. Texts from the study are set as texts, never as HTML.
document.querySelectorAll(".explorer").forEach(function (box) {
  var ink = getComputedStyle(document.body).color;
  var content = JSON.parse(box.querySelector("script").textContent.split("#24292f").join(ink));
  var controls = box.querySelector(".choices"), samplers = box.querySelector(".samplers");
  var drawing = null, chosen = { target: 0, axis: 0, estimand: 0, quantity: 0 };
  var hidden = content.settings.map(function () { return false; });

  function target() { return content.targets[chosen.target]; }
  function axis() { return target().axes[chosen.axis]; }
  function estimand() { return axis().estimands[chosen.estimand]; }
  function quantity() { return content.quantities[chosen.quantity]; }

  // Three significant digits, as in the tables: 0.0123, 12,300, 2.50×10⁻⁷.
  function number(value) {
    var exponent = value === 0 ? 0 : Math.floor(Math.log10(Math.abs(value)));
    if (exponent >= -3 && exponent < 5) {
      return value.toLocaleString("en", { maximumSignificantDigits: 3, minimumSignificantDigits: exponent < 2 ? 3 : 1 });
    }
    var raised = String(exponent).replace(/./g, function (sign) { return "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(sign)]; });
    return (value / Math.pow(10, exponent)).toFixed(2) + "×10" + raised;
  }
  function shown(value) { return value === null ? null : quantity().root ? Math.sqrt(Math.max(value, 0)) : value; }
  function columns(curve, lowest) {
    var name = quantity().column, unit = quantity().root ? estimand().unit : "";
    var where = /\(s\)$/.test(axis().name) ? " s" : " data points";
    var data = { at: [], y: [], lower: [], upper: [], name: [], value: [], where: [] };
    (curve ? curve.at : []).forEach(function (at, k) {
      var y = shown(curve[name][k]), lower = shown(curve[name + "_lower"][k]), upper = shown(curve[name + "_upper"][k]);
      var ends = lower === null || upper === null ? " [no interval]" : " [" + number(lower) + ", " + number(upper) + "]";
      var band = lower !== null && upper !== null && upper > lowest;
      data.at.push(at);
      data.y.push(y > 0 ? y : NaN);
      data.lower.push(band ? Math.max(lower, lowest) : NaN);
      data.upper.push(band ? upper : NaN);
      data.name.push(content.settings[curve.setting].name);
      data.value.push(y === null ? "" : number(y) + ends + unit);
      data.where.push(number(at) + where);
    });
    return data;
  }
  function draw() {
    var curves = estimand().curves, name = quantity().column, least = Infinity;
    curves.forEach(function (curve) {
      if (hidden[curve.setting]) { return; }
      curve[name].forEach(function (value) { if (value !== null && shown(value) > 0) { least = Math.min(least, shown(value)); } });
    });
    var lowest = isFinite(least) ? least / 3 : 1e-12;
    content.settings.forEach(function (_, index) {
      var curve = curves.find(function (each) { return each.setting === index; });
      drawing.get_model_by_name("curve " + index).data = columns(curve, lowest);
      samplers.children[index].hidden = !curve;
      ["band ", "line ", "points "].forEach(function (part) {
        drawing.get_model_by_name(part + index).visible = !hidden[index];
      });
    });
    var floor = shown(estimand().floor), span = drawing.get_model_by_name("floor");
    span.location = floor;
    span.visible = quantity().column !== "variance" && floor > lowest;
    var plot = drawing.get_model_by_name("drawing");
    plot.below[0].axis_label = axis().name;
    plot.left[0].axis_label = quantity().heading;
    plot.reset.emit();
  }

  function choice(key, label, names, changed) {
    var row = document.createElement("label"), select = document.createElement("select");
    row.appendChild(document.createTextNode(label));
    names.forEach(function (name, index) { select.add(new Option(name, index)); });
    select.dataset.choice = key;
    select.value = chosen[key];
    select.addEventListener("change", function () { chosen[key] = Number(select.value); changed(key); });
    row.appendChild(select);
    controls.appendChild(row);
  }
  function named(list) { return list.map(function (each) { return each.name; }); }
  // What the new choice does not offer goes back to its first entry.
  function again(key) {
    chosen.axis = chosen.axis < target().axes.length ? chosen.axis : 0;
    chosen.estimand = chosen.estimand < axis().estimands.length ? chosen.estimand : 0;
    choices();
    draw();
    controls.querySelector("[data-choice=" + key + "]").focus();
  }
  function choices() {
    controls.textContent = "";
    choice("target", "posterior", named(content.targets), again);
    choice("estimand", "estimand", named(axis().estimands), draw);
    choice("quantity", "quantity", content.quantities.map(function (each) { return each.heading; }), draw);
    choice("axis", "against", named(target().axes), again);
  }
  content.settings.forEach(function (setting, index) {
    var row = document.createElement("label"), tick = document.createElement("input"), swatch = document.createElement("i");
    tick.type = "checkbox";
    tick.checked = true;
    tick.addEventListener("change", function () { hidden[index] = !tick.checked; draw(); });
    swatch.style.background = setting.colour;
    row.append(tick, swatch, setting.name);
    samplers.appendChild(row);
  });
  choices();
  Bokeh.embed.embed_item(content.drawing, box.querySelector(".drawing")).then(function (views) {
    drawing = Array.from(views)[0].model.document;
    draw();
  });
});
