CREATE NODE TABLE Person(name STRING PRIMARY KEY);
CREATE NODE TABLE Film(title STRING PRIMARY KEY, year INT64);
CREATE REL TABLE DIRECTED(FROM Person TO Film);
CREATE (p:Person {name: 'Agnes Varda'}),
    (p)-[:DIRECTED]->(:Film {title: 'Cleo from 5 to 7', year: 1962}),
    (p)-[:DIRECTED]->(:Film {title: 'Vagabond', year: 1985});
CREATE (p:Person {name: 'Jacques Tati'}),
    (p)-[:DIRECTED]->(:Film {title: 'Mon Oncle', year: 1958}),
    (p)-[:DIRECTED]->(:Film {title: 'Playtime', year: 1967});
